/* Load on raw sockets: what a broker costs when the client costs next to nothing.
 *
 * N connections keep K Produce requests each in flight, over P partitions in turn, each beginning at another one.
 * Every request is built once per partition and sent again and again with a new correlation id, so that one core of
 * client drives more than one core of broker. The broker's CPU time is read at the ends of the measured window, by this
 * very process: a harness that reads it before and after the run would count connecting and warming up as well.
 *
 * A cluster is given as the port of each partition's leader (--leaders 9092,9093,…).
 *
 * Prints one JSON object. Exit code 1: the broker could not be reached or closed a connection; 2: wrong arguments.
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
#include <sys/uio.h>
#include <unistd.h>

#include "measure.h"

struct options {
    const char *host, *topic, *pids, *leaders;
    int port, connections, in_flight, acks, record_bytes, records, topics, partitions, per_request, version;
    double seconds, warmup;
};

struct request {
    char *bytes;
    size_t size;
};

struct connection {
    int fd, port;
    uint32_t correlation_id, answered_id;
    unsigned next;           /* the partition to write next */
    int in_flight, oldest;   /* ring of send times */
    uint64_t *sent_ns;
    const struct request *sending;
    char prefix[12];         /* size, api, version and correlation id of the request being sent */
    size_t sent_bytes;
    char *input;
    size_t filled, capacity;
};

static struct options opt = {.host = "127.0.0.1", .port = 9092, .topic = "bench", .pids = "", .leaders = "", .connections = 1, .in_flight = 1, .acks = -1,
                             .record_bytes = 100, .records = 1, .topics = 1, .partitions = 6, .per_request = 1, .version = 7,
                             .seconds = 5, .warmup = 1};
static struct request *requests;
static unsigned request_count;
static int *leader_ports; /* of each partition; in a cluster a connection writes to those of its own broker only */
static struct samples latencies;
static uint64_t completed, refused;
static int first_error, measuring;

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct buffer {
    char *bytes;
    size_t size, capacity;
};

static void put(struct buffer *b, const void *bytes, size_t n) {
    if (b->size + n > b->capacity) {
        b->capacity = (b->size + n) * 2;
        b->bytes = realloc(b->bytes, b->capacity);
    }
    memcpy(b->bytes + b->size, bytes, n);
    b->size += n;
}

static void put_int(struct buffer *b, uint64_t value, int width) {
    for (int shift = (width - 1) * 8; shift >= 0; shift -= 8) {
        char byte = (char)(value >> shift);
        put(b, &byte, 1);
    }
}

static void put_unsigned_varint(struct buffer *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put_int(b, (value & 0x7f) | 0x80, 1);
    put_int(b, value, 1);
}

static void put_varint(struct buffer *b, int64_t value) {
    put_unsigned_varint(b, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

static void put_record(struct buffer *b, int delta) {
    struct buffer record = {0};
    put_int(&record, 0, 1);
    put_varint(&record, 0);
    put_varint(&record, delta);
    put_varint(&record, -1);
    put_varint(&record, opt.record_bytes);
    for (int i = 0; i < opt.record_bytes; i++) put_int(&record, 'a' + (i * 7 + delta) % 26, 1);
    put_varint(&record, 0);
    put_varint(b, (int64_t)record.size);
    put(b, record.bytes, record.size);
    free(record.bytes);
}

static void put_batch(struct buffer *b) {
    struct buffer covered = {0}; /* what the CRC covers */
    uint64_t now_ms = wall_clock_ms();
    put_int(&covered, 0, 2);
    put_int(&covered, (uint64_t)opt.records - 1, 4);
    put_int(&covered, now_ms, 8);
    put_int(&covered, now_ms, 8);
    put_int(&covered, UINT64_MAX, 8);
    put_int(&covered, UINT64_MAX, 2);
    put_int(&covered, UINT64_MAX, 4);
    put_int(&covered, (uint64_t)opt.records, 4);
    for (int i = 0; i < opt.records; i++) put_record(&covered, i);
    put_int(b, 0, 8);
    put_int(b, covered.size + 9, 4);
    put_int(b, UINT64_MAX, 4);
    put_int(b, 2, 1);
    put_int(b, crc32c(covered.bytes, covered.size), 4);
    put(b, covered.bytes, covered.size);
    free(covered.bytes);
}

static int flexible(void) { return opt.version >= 9; }

static void put_count(struct buffer *b, size_t count) {
    if (flexible()) put_unsigned_varint(b, count + 1);
    else put_int(b, count, 4);
}

static void put_topic(struct buffer *b, const char *name, unsigned first, int partitions, const struct buffer *batch) {
    if (flexible()) put_unsigned_varint(b, strlen(name) + 1);
    else put_int(b, strlen(name), 2);
    put(b, name, strlen(name));
    put_count(b, (size_t)partitions);
    for (int i = 0; i < partitions; i++) {
        put_int(b, (first + (unsigned)i) % (unsigned)opt.partitions, 4);
        put_count(b, batch->size);
        put(b, batch->bytes, batch->size);
        if (flexible()) put_int(b, 0, 1);
    }
    if (flexible()) put_int(b, 0, 1);
}

static struct request build_request(unsigned at, const struct buffer *batch) {
    static const char client_id[] = "rawload";
    struct buffer b = {0};
    char name[300];
    unsigned topic = at / (unsigned)opt.partitions, partition = at % (unsigned)opt.partitions;
    if (opt.topics == 1) snprintf(name, sizeof name, "%s", opt.topic);
    else snprintf(name, sizeof name, "%s-%u", opt.topic, topic);
    put_int(&b, 0, 4); /* size, filled in below */
    put_int(&b, 0, 2);
    put_int(&b, (uint64_t)opt.version, 2);
    put_int(&b, 0, 4); /* correlation id, filled in when sent */
    put_int(&b, sizeof client_id - 1, 2);
    put(&b, client_id, sizeof client_id - 1);
    if (flexible()) put_int(&b, 0, 2); /* header tags, then a null transactional id */
    else put_int(&b, UINT64_MAX, 2);
    put_int(&b, (uint64_t)opt.acks, 2);
    put_int(&b, 30000, 4);
    put_count(&b, 1);
    put_topic(&b, name, partition, opt.per_request, batch);
    if (flexible()) put_int(&b, 0, 1);
    uint32_t size = htonl((uint32_t)b.size - 4);
    memcpy(b.bytes, &size, 4);
    return (struct request){b.bytes, b.size};
}

static void build_requests(void) {
    struct buffer batch = {0};
    put_batch(&batch);
    request_count = (unsigned)(opt.topics * opt.partitions);
    requests = calloc(request_count, sizeof *requests);
    for (unsigned i = 0; i < request_count; i++) requests[i] = build_request(i, &batch);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static uint64_t take_int(const char **at, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++) value = value << 8 | (uint8_t)*(*at)++;
    return value;
}

static uint64_t take_count(const char **at) {
    if (!flexible()) return take_int(at, 4);
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = (uint8_t)*(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value - 1;
    }
}

/* The first error code among the partitions; only the first partition of a flexible answer is looked at. */
static int error_in(const char *at) {
    if (flexible()) at++;
    if (take_count(&at) == 0) return -1;
    at += flexible() ? take_count(&at) : take_int(&at, 2);
    uint64_t partitions = take_count(&at);
    int error = 0;
    for (uint64_t i = 0; i < (flexible() ? 1 : partitions) && error == 0; i++) {
        at += 4;
        error = (int16_t)take_int(&at, 2);
        at += 24;
    }
    return error;
}

static void complete(struct connection *c, uint64_t now, int error) {
    if (error != 0) {
        refused++;
        if (first_error == 0) first_error = error;
    } else if (measuring) {
        completed++;
        add_sample(&latencies, now - c->sent_ns[c->oldest]);
    }
    c->oldest = (c->oldest + 1) % opt.in_flight;
    c->in_flight--;
}

static void fail(const char *what) {
    fprintf(stderr, "rawload: %s: %s\n", what, errno ? strerror(errno) : "closed by the broker");
    exit(1);
}

static void take_answers(struct connection *c) {
    uint64_t now = clock_ns();
    size_t start = 0;
    while (c->filled - start >= 8) {
        const char *at = c->input + start;
        size_t size = take_int(&at, 4);
        if (c->filled - start < size + 4) break;
        if (take_int(&at, 4) != c->answered_id++) fail("answers out of order");
        complete(c, now, error_in(at));
        start += size + 4;
    }
    memmove(c->input, c->input + start, c->filled - start);
    c->filled -= start;
    if (c->filled == c->capacity) c->input = realloc(c->input, c->capacity *= 2);
}

static void receive(struct connection *c) {
    size_t space;
    ssize_t n;
    do { /* edge-triggered: what is left in the socket would not be told again */
        errno = 0;
        space = c->capacity - c->filled;
        n = recv(c->fd, c->input + c->filled, space, 0);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) fail("receive");
        c->filled += (size_t)n;
        take_answers(c);
    } while ((size_t)n == space);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void begin_request(struct connection *c) {
    while (leader_ports[c->next % (unsigned)opt.partitions] != c->port) c->next++;
    c->sending = &requests[c->next % request_count];
    c->next++;
    memcpy(c->prefix, c->sending->bytes, 8);
    uint32_t id = htonl(c->correlation_id++);
    memcpy(c->prefix + 8, &id, 4);
    c->sent_bytes = 0;
    c->sent_ns[(c->oldest + c->in_flight) % opt.in_flight] = clock_ns();
    c->in_flight++;
}

static void send_all(struct connection *c) {
    while (c->sending || c->in_flight < opt.in_flight) {
        if (!c->sending) begin_request(c);
        struct iovec parts[2] = {{c->prefix, sizeof c->prefix},
                                 {c->sending->bytes + sizeof c->prefix, c->sending->size - sizeof c->prefix}};
        size_t skip = c->sent_bytes;
        int first = skip >= sizeof c->prefix;
        parts[first].iov_base = (char *)parts[first].iov_base + (first ? skip - sizeof c->prefix : skip);
        parts[first].iov_len -= first ? skip - sizeof c->prefix : skip;
        struct msghdr message = {.msg_iov = parts + first, .msg_iovlen = (size_t)(2 - first)};
        ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) fail("send");
        c->sent_bytes += (size_t)n;
        if (c->sent_bytes < c->sending->size) continue;
        c->sending = NULL;
        if (opt.acks == 0) complete(c, clock_ns(), 0);
    }
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void connect_one(struct connection *c, unsigned number, int poller) {
    c->port = leader_ports[number % (unsigned)opt.partitions];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->port)};
    int on = 1;
    inet_pton(AF_INET, opt.host, &address.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ioctl(c->fd, FIONBIO, &on);
    c->sent_ns = calloc((size_t)opt.in_flight, sizeof *c->sent_ns);
    c->input = malloc(c->capacity = 1 << 16);
    c->next = (unsigned)((uint64_t)number * request_count / (unsigned)opt.connections); /* all over the partitions */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
}

static void read_leaders(void) {
    const char *at = opt.leaders;
    leader_ports = calloc((size_t)opt.partitions, sizeof *leader_ports);
    for (int i = 0; i < opt.partitions; i++) {
        leader_ports[i] = *at ? atoi(at) : opt.port;
        at += strcspn(at, ",");
        at += *at == ',';
    }
}

static void run_until(int poller, uint64_t deadline) {
    struct epoll_event events[256];
    for (uint64_t now = clock_ns(); now < deadline; now = clock_ns()) {
        int n = epoll_wait(poller, events, 256, (int)((deadline - now) / 1000000) + 1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
            send_all(c);
        }
    }
}

/* Kafka answers CreateTopics before it leads all the new partitions: warm up until nothing is refused any more. */
static void warm_up(int poller) {
    run_until(poller, clock_ns() + (uint64_t)(opt.warmup * 1e9));
    for (int slices = 0; refused && slices < 480; slices++) {
        refused = 0;
        run_until(poller, clock_ns() + 250000000u);
    }
    refused = 0;
    first_error = 0;
}

static void print_result(double seconds, double broker_cpu, double client_cpu) {
    double per_request = (double)opt.per_request;
    printf("{\"requests\": %lu, \"refused\": %lu, \"first_error\": %d, \"seconds\": %.3f, \"rate\": %.1f, \"mb_per_s\": %.2f, ",
           completed, refused, first_error, seconds, (double)completed / seconds,
           (double)completed * per_request * opt.records * opt.record_bytes / seconds / 1e6);
    print_latencies(&latencies);
    printf(", \"broker_cpu_s\": %.3f, \"broker_cpu_us\": %.2f, \"broker_rss_mb\": %.1f, \"client_cpu_s\": %.3f}\n", broker_cpu,
           completed ? broker_cpu * 1e6 / (double)completed : 0, brokers_rss_mb(opt.pids), client_cpu);
}

static void parse_options(int argc, char **argv) {
    struct option_spec specs[] = {
        TEXT("host", opt.host), NUMBER("port", opt.port), TEXT("topic", opt.topic), NUMBER("connections", opt.connections),
        NUMBER("in-flight", opt.in_flight), NUMBER("acks", opt.acks), NUMBER("record-bytes", opt.record_bytes),
        NUMBER("records", opt.records), NUMBER("topics", opt.topics), NUMBER("partitions", opt.partitions),
        NUMBER("per-request", opt.per_request), NUMBER("version", opt.version), TEXT("pids", opt.pids), TEXT("leaders", opt.leaders),
        REAL("seconds", opt.seconds), REAL("warmup", opt.warmup), {0}};
    read_options(argc, argv, specs);
    if (opt.version < 3 || opt.version > 12 || opt.per_request > opt.partitions || opt.in_flight < 1) {
        fprintf(stderr, "rawload: version must be 3 to 12, per-request at most partitions, in-flight at least 1\n");
        exit(2);
    }
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    build_requests();
    read_leaders();
    int poller = epoll_create1(0);
    struct connection *connections = calloc((size_t)opt.connections, sizeof *connections);
    for (int i = 0; i < opt.connections; i++) connect_one(&connections[i], (unsigned)i, poller);
    warm_up(poller);
    measuring = 1;
    double broker_cpu = brokers_cpu_s(opt.pids), client_cpu = process_cpu_s(getpid());
    uint64_t start = clock_ns();
    run_until(poller, start + (uint64_t)(opt.seconds * 1e9));
    double seconds = (double)(clock_ns() - start) / 1e9;
    print_result(seconds, brokers_cpu_s(opt.pids) - broker_cpu, process_cpu_s(getpid()) - client_cpu);
    return 0;
}
