/* Load on the HTTP API: what it costs when the client costs next to nothing.
 *
 * N keep-alive connections, each with one request under way, as HTTP clients do it. --mode produce posts one message a
 * request, or with --batch lines of NDJSON; the request is built once and sent again and again. --mode consume reads
 * --limit messages at a time, each connection one partition in turn, and counts the messages that it is given. CPU time
 * of the server is read from /proc at the ends of the measured window.
 *
 * Prints one JSON object, in which `rate` and `broker_cpu_us` are per message. Exit code 1: the server could not be
 * reached, closed a connection or answered with anything but 200; 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

#define HEAD_BYTES_MAX 512

struct connection {
    int fd, partition;
    long offset;             /* where to read next */
    uint64_t sent_ns;
    char head[HEAD_BYTES_MAX]; /* of a request that differs from the one before */
    const char *request;
    size_t size, sent_bytes;
    char *input;
    size_t filled, capacity;
    size_t awaited;          /* bytes of the answer as a whole; 0 until its head is there */
};

static struct {
    const char *host, *topic, *pids, *mode;
    int port, connections, record_bytes, batch, limit, partitions, records;
    double seconds, warmup;
} opt = {.host = "127.0.0.1", .port = 8080, .topic = "bench", .pids = "", .mode = "produce", .connections = 1,
         .record_bytes = 50, .batch = 1, .limit = 1000, .partitions = 6, .records = 0, .seconds = 5, .warmup = 1};
static char *produce_request;
static size_t produce_size;
static struct samples latencies;
static uint64_t requests, messages, answer_bytes;
static int measuring, consuming;

static void fail(const char *what) {
    fprintf(stderr, "httpload: %s: %s\n", what, errno ? strerror(errno) : "closed by the server");
    exit(1);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static size_t put_message(char *at, int number) {
    size_t size = (size_t)sprintf(at, "{\"value\":\"");
    for (int i = 0; i < opt.record_bytes; i++) at[size++] = (char)('a' + (i * 7 + number) % 26);
    return size + (size_t)sprintf(at + size, "\"}");
}

static void build_produce_request(void) {
    size_t capacity = (size_t)opt.batch * ((size_t)opt.record_bytes + 16), size = 0;
    char *body = malloc(capacity);
    for (int i = 0; i < opt.batch; i++) {
        if (i) body[size++] = '\n';
        size += put_message(body + size, i);
    }
    produce_request = malloc(size + HEAD_BYTES_MAX);
    produce_size = (size_t)sprintf(produce_request,
                                   "POST /topics/%s/produce HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/%s\r\n"
                                   "Content-Length: %zu\r\n\r\n",
                                   opt.topic, opt.host, opt.port, opt.batch > 1 ? "x-ndjson" : "json", size);
    memcpy(produce_request + produce_size, body, size);
    produce_size += size;
    free(body);
}

static void begin_request(struct connection *c) {
    c->request = produce_request;
    c->size = produce_size;
    if (consuming) {
        if (c->offset + opt.limit > opt.records) c->offset = 0;
        c->request = c->head;
        c->size = (size_t)snprintf(c->head, sizeof c->head,
                                   "GET /topics/%s/partitions/%d/consume?offset=%ld&limit=%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n",
                                   opt.topic, c->partition, c->offset, opt.limit, opt.host, opt.port);
        c->offset += opt.limit;
    }
    c->sent_bytes = c->filled = c->awaited = 0;
    c->sent_ns = clock_ns();
}

static void send_rest(struct connection *c) {
    while (c->sent_bytes < c->size) {
        ssize_t n = send(c->fd, c->request + c->sent_bytes, c->size - c->sent_bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) fail("send");
        c->sent_bytes += (size_t)n;
    }
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void read_head(struct connection *c) {
    char *end = memmem(c->input, c->filled, "\r\n\r\n", 4);
    if (!end) return;
    *end = 0;
    char *length = strcasestr(c->input, "content-length:");
    if (strncmp(c->input, "HTTP/1.1 200", 12) != 0 || !length) {
        fprintf(stderr, "httpload: answered with %s\n", c->input);
        exit(1);
    }
    c->awaited = (size_t)(end - c->input) + 4 + (size_t)atol(length + 15);
    if (c->awaited > c->capacity) c->input = realloc(c->input, c->capacity = c->awaited);
}

static uint64_t messages_in(const struct connection *c) {
    static const char sign[] = "\"timestamp_ms\":";
    uint64_t count = 0;
    const char *at = c->input, *end = c->input + c->filled;
    while ((at = memmem(at, (size_t)(end - at), sign, sizeof sign - 1))) count++, at += sizeof sign;
    return count;
}

static void complete(struct connection *c) {
    if (measuring) {
        requests++;
        messages += consuming ? messages_in(c) : (uint64_t)opt.batch;
        answer_bytes += c->filled;
        add_sample(&latencies, clock_ns() - c->sent_ns);
    }
    begin_request(c);
    send_rest(c);
}

static void receive(struct connection *c) {
    for (;;) { /* edge-triggered: until there is no more */
        errno = 0;
        ssize_t n = recv(c->fd, c->input + c->filled, c->capacity - c->filled, 0);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) fail("receive");
        c->filled += (size_t)n;
        if (!c->awaited) read_head(c);
        if (c->awaited && c->filled >= c->awaited) {
            if (c->filled > c->awaited) fail("more than was asked for");
            complete(c);
        } else if (c->filled == c->capacity) {
            c->input = realloc(c->input, c->capacity *= 2);
        }
    }
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void connect_one(struct connection *c, int number, int poller) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    int on = 1;
    inet_pton(AF_INET, opt.host, &address.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ioctl(c->fd, FIONBIO, &on);
    c->input = malloc(c->capacity = 1 << 16);
    c->partition = number % opt.partitions;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    begin_request(c);
    send_rest(c);
}

static void run_until(int poller, uint64_t deadline) {
    struct epoll_event events[256];
    for (uint64_t now = clock_ns(); now < deadline; now = clock_ns()) {
        int n = epoll_wait(poller, events, 256, (int)((deadline - now) / 1000000) + 1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) send_rest(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
    }
}

static void print_result(double seconds, double broker_cpu, double client_cpu) {
    printf("{\"requests\": %lu, \"seconds\": %.3f, \"rate\": %.1f, \"requests_per_s\": %.1f, \"answer_mb_per_s\": %.2f, ", requests,
           seconds, (double)messages / seconds, (double)requests / seconds, (double)answer_bytes / seconds / 1e6);
    print_latencies(&latencies);
    printf(", \"broker_cpu_s\": %.3f, \"broker_cpu_us\": %.3f, \"broker_rss_mb\": %.1f, \"client_cpu_s\": %.3f}\n", broker_cpu,
           messages ? broker_cpu * 1e6 / (double)messages : 0, brokers_rss_mb(opt.pids), client_cpu);
}

int main(int argc, char **argv) {
    struct option_spec specs[] = {
        TEXT("host", opt.host), NUMBER("port", opt.port), TEXT("topic", opt.topic), TEXT("pids", opt.pids), TEXT("mode", opt.mode),
        NUMBER("connections", opt.connections), NUMBER("record-bytes", opt.record_bytes), NUMBER("batch", opt.batch),
        NUMBER("limit", opt.limit), NUMBER("partitions", opt.partitions), NUMBER("records", opt.records),
        REAL("seconds", opt.seconds), REAL("warmup", opt.warmup), {0}};
    read_options(argc, argv, specs);
    consuming = strcmp(opt.mode, "consume") == 0;
    if (consuming && opt.records < opt.limit) {
        fprintf(stderr, "httpload: --records must be at least --limit\n");
        return 2;
    }
    build_produce_request();
    int poller = epoll_create1(0);
    struct connection *connections = calloc((size_t)opt.connections, sizeof *connections);
    for (int i = 0; i < opt.connections; i++) connect_one(&connections[i], i, poller);
    run_until(poller, clock_ns() + (uint64_t)(opt.warmup * 1e9));
    measuring = 1;
    double broker_cpu = brokers_cpu_s(opt.pids), client_cpu = process_cpu_s(getpid());
    uint64_t start = clock_ns();
    run_until(poller, start + (uint64_t)(opt.seconds * 1e9));
    double seconds = (double)(clock_ns() - start) / 1e9;
    print_result(seconds, brokers_cpu_s(opt.pids) - broker_cpu, process_cpu_s(getpid()) - client_cpu);
    return 0;
}
