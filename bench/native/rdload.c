/* Load through librdkafka: what a real client gets out of a broker.
 *
 * rdload --mode produce   as many records as go, counted when they are acknowledged
 * rdload --mode fill      exactly --count records, then stop: data for a consume run
 * rdload --mode consume   all partitions from their beginnings until --count records were read
 * rdload --mode latency   --rate records a second through the broker and back into this process; the time of a record
 *                         starts when it *should* have been sent, so that a stall of the broker counts for all that it delays
 *
 * The broker's CPU time is taken over the measured window only.
 * Prints one JSON object. Exit code 1: an error from the broker; 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "measure.h"
#include "pool.h"
#include "rdkafka_abi.h"

#define CONSUME_AT_ONCE 1000

static const char *mode = "produce", *bootstrap = "127.0.0.1:9092", *topic_name = "bench", *acks = "-1", *compression = "none";
static const char *pids = "", *batch_bytes = "", *linger_ms = "5", *in_flight = "5", *isolation = "read_committed";
static int record_bytes = 100, partitions = 6;
static double seconds = 5, warmup = 1, rate = 1000, count = 0;
static char error_text[512];

static void fail(const char *what, const char *why) {
    fprintf(stderr, "rdload: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    if (rd_kafka_conf_set(conf, name, value, error_text, sizeof error_text) != RD_KAFKA_CONF_OK) fail(name, error_text);
}

/* ---- producer ---------------------------------------------------------------------------------------------------- */

static rd_kafka_t *new_producer(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "acks", acks);
    set(conf, "compression.type", compression);
    set(conf, "linger.ms", linger_ms);
    set(conf, "max.in.flight.requests.per.connection", in_flight);
    /* Five batches of 10,000: what can be in flight. A longer queue only makes the client's memory cold. */
    set(conf, "queue.buffering.max.messages", "50000");
    set(conf, "queue.buffering.max.kbytes", "262144");
    if (*batch_bytes) set(conf, "batch.size", batch_bytes);
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error_text, sizeof error_text);
    if (!rk) fail("producer", error_text);
    return rk;
}

/* Takes delivery reports; one event holds a whole batch, so that counting does not cost per record. */
static uint64_t take_reports(rd_kafka_queue_t *queue, int timeout_ms) {
    uint64_t delivered = 0;
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(queue, timeout_ms))) {
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR) {
            delivered += rd_kafka_event_message_count(event);
            const rd_kafka_message_t *first = rd_kafka_event_message_next(event);
            if (first && first->err) fail("delivery", rd_kafka_err2str(first->err));
        } else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
            fprintf(stderr, "rdload: %s\n", rd_kafka_event_error_string(event));
        }
        rd_kafka_event_destroy(event);
        timeout_ms = 0;
    }
    return delivered;
}

static char *new_payload(void) {
    char *payload = malloc((size_t)record_bytes);
    uint32_t state = 12345;
    for (int i = 0; i < record_bytes; i++) {
        state = state * 1664525u + 1013904223u;
        payload[i] = i % 2 ? (char)(state >> 24) : (char)('a' + i % 26);
    }
    return payload;
}

/* Many different payloads in a row where they are compressed: a batch of equal ones would compress to nothing. Runs of
 * noise and runs of text take turns, so that any codec makes about half of it. */
static char *payloads;
static size_t payload_count = 1;

static void new_payloads(void) {
    static const char text[] = "the quick brown fox jumps over the lazy dog, and ";
    if (strcmp(compression, "none") == 0) {
        payloads = new_payload();
        return;
    }
    payload_count = (8u << 20) / (size_t)record_bytes;
    payloads = malloc(payload_count * (size_t)record_bytes);
    uint32_t state = 12345;
    for (size_t i = 0; i < payload_count * (size_t)record_bytes; i++) {
        state = state * 1664525u + 1013904223u;
        payloads[i] = i / 24 % 2 ? (char)(state >> 24) : text[i % 24];
    }
}

/* Sends until `until_ns`, or `limit` records if that is not 0; returns how many were acknowledged meanwhile. */
static uint64_t produce_until(rd_kafka_topic_t *topic, rd_kafka_queue_t *queue, uint64_t until_ns, uint64_t limit) {
    uint64_t acknowledged = 0, sent = 0;
    while (clock_ns() < until_ns && (!limit || sent < limit)) {
        for (int i = 0; i < 256 && (!limit || sent < limit); i++, sent++) {
            char *payload = payloads + sent % payload_count * (size_t)record_bytes;
            while (rd_kafka_produce(topic, (int32_t)(sent % (uint64_t)partitions), 0, payload, (size_t)record_bytes, NULL, 0, NULL) < 0) {
                if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR_QUEUE_FULL) fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
                acknowledged += take_reports(queue, 10);
            }
        }
        acknowledged += take_reports(queue, 0);
    }
    return acknowledged;
}

static void run_produce(void) {
    rd_kafka_t *rk = new_producer();
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, topic_name, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(rk);
    new_payloads();
    uint64_t limit = strcmp(mode, "fill") == 0 ? (uint64_t)count : 0;
    if (!limit) produce_until(topic, queue, clock_ns() + (uint64_t)(warmup * 1e9), 0);
    double broker_cpu = brokers_cpu_s(pids), client_cpu = process_cpu_s(getpid());
    uint64_t start = clock_ns();
    uint64_t done = produce_until(topic, queue, limit ? UINT64_MAX : start + (uint64_t)(seconds * 1e9), limit);
    while (limit && done < limit) done += take_reports(queue, 100);
    double took = (double)(clock_ns() - start) / 1e9;
    broker_cpu = brokers_cpu_s(pids) - broker_cpu;
    printf("{\"records\": %lu, \"seconds\": %.3f, \"rate\": %.0f, \"mb_per_s\": %.2f, \"broker_cpu_s\": %.3f, \"broker_cpu_us\": %.3f, "
           "\"broker_rss_mb\": %.1f, \"client_cpu_s\": %.3f}\n",
           done, took, (double)done / took, (double)done * record_bytes / took / 1e6, broker_cpu, broker_cpu * 1e6 / (double)done,
           brokers_rss_mb(pids), process_cpu_s(getpid()) - client_cpu);
    fflush(stdout);
    _exit(0); /* what is still queued belongs to nobody: no need to wait for it */
}

/* ---- consumer ---------------------------------------------------------------------------------------------------- */

static rd_kafka_t *new_consumer(const char *group) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "group.id", group);
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.auto.offset.store", "false");
    set(conf, "queued.min.messages", "1000000");
    set(conf, "isolation.level", isolation);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error_text, sizeof error_text);
    if (!rk) fail("consumer", error_text);
    return rk;
}

static rd_kafka_queue_t *start_consuming(rd_kafka_t *rk, rd_kafka_topic_t *topic, int64_t offset) {
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    for (int32_t p = 0; p < partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, offset, queue) < 0) fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    return queue;
}

static void run_consume(void) {
    rd_kafka_t *rk = new_consumer("rdload");
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, topic_name, NULL);
    rd_kafka_message_t *messages[CONSUME_AT_ONCE];
    double broker_cpu = brokers_cpu_s(pids), client_cpu = process_cpu_s(getpid());
    rd_kafka_queue_t *queue = start_consuming(rk, topic, RD_KAFKA_OFFSET_BEGINNING);
    uint64_t done = 0, bytes = 0, start = 0;
    while (done < (uint64_t)count) {
        ssize_t n = rd_kafka_consume_batch_queue(queue, 10000, messages, CONSUME_AT_ONCE);
        if (n <= 0) fail("consume", "nothing for 10 s");
        if (!start) start = clock_ns(); /* the first answer is here: connecting is over */
        for (ssize_t i = 0; i < n; i++) {
            if (messages[i]->err) fail("consume", rd_kafka_err2str(messages[i]->err));
            bytes += messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        done += (uint64_t)n;
    }
    double took = (double)(clock_ns() - start) / 1e9;
    broker_cpu = brokers_cpu_s(pids) - broker_cpu;
    printf("{\"records\": %lu, \"seconds\": %.3f, \"rate\": %.0f, \"mb_per_s\": %.2f, \"broker_cpu_s\": %.3f, \"broker_cpu_us\": %.3f, "
           "\"broker_rss_mb\": %.1f, \"client_cpu_s\": %.3f}\n",
           done, took, (double)done / took, (double)bytes / took / 1e6, broker_cpu, broker_cpu * 1e6 / (double)done, brokers_rss_mb(pids),
           process_cpu_s(getpid()) - client_cpu);
    fflush(stdout);
    _exit(0);
}

/* ---- end to end -------------------------------------------------------------------------------------------------- */

static atomic_uint_fast64_t received;
static _Atomic uint64_t measure_from_ns = UINT64_MAX;
static struct samples latencies;

static void *receive_records(void *queue) {
    for (;;) {
        rd_kafka_message_t *message;
        uint64_t intended;
        if (rd_kafka_consume_batch_queue(queue, 100, &message, 1) != 1) continue;
        if (message->err) fail("consume", rd_kafka_err2str(message->err));
        memcpy(&intended, message->payload, sizeof intended);
        if (intended >= measure_from_ns) add_sample(&latencies, clock_ns() - intended);
        rd_kafka_message_destroy(message);
        received++;
    }
    return NULL;
}

static void sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint64_t produce_at_rate(rd_kafka_topic_t *topic, rd_kafka_queue_t *queue, uint64_t start, double for_s) {
    char *payload = new_payload();
    uint64_t total = (uint64_t)(rate * for_s), sent = 0;
    for (; sent < total; sent++) {
        uint64_t intended = start + (uint64_t)((double)sent * 1e9 / rate);
        if (clock_ns() < intended) sleep_until(intended);
        memcpy(payload, &intended, sizeof intended);
        while (rd_kafka_produce(topic, (int32_t)(sent % (uint64_t)partitions), 2 /* copy */, payload, (size_t)record_bytes, NULL, 0, NULL) < 0) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR_QUEUE_FULL) fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            take_reports(queue, 10); /* the broker does not keep up: the time that passes counts for this record too */
        }
        if (sent % 16 == 0) take_reports(queue, 0);
    }
    free(payload);
    return sent;
}

static void wait_received(uint64_t target) {
    uint64_t deadline = clock_ns() + 60000000000u;
    while (received < target) {
        if (clock_ns() > deadline) fail("latency", "records did not come back within 60 s");
        usleep(1000);
    }
}

/* One record to each partition and back: connecting is over. */
static uint64_t settle(rd_kafka_topic_t *topic, rd_kafka_queue_t *reports) {
    usleep(1000000);
    double saved = rate;
    rate = 1000;
    uint64_t sent = produce_at_rate(topic, reports, clock_ns(), (double)partitions / rate);
    rate = saved;
    wait_received(sent);
    return sent;
}

static void run_latency(void) {
    prctl(PR_SET_TIMERSLACK, 1);
    rd_kafka_t *consumer = new_consumer("rdload"), *producer = new_producer();
    rd_kafka_topic_t *in = rd_kafka_topic_new(producer, topic_name, NULL), *out = rd_kafka_topic_new(consumer, topic_name, NULL);
    rd_kafka_queue_t *reports = rd_kafka_queue_get_main(producer);
    pthread_t receiver;
    pthread_create(&receiver, NULL, receive_records, start_consuming(consumer, out, 0)); /* the topic is new */
    uint64_t sent = settle(in, reports);
    sent += produce_at_rate(in, reports, clock_ns(), warmup);
    wait_received(sent);
    double broker_cpu = brokers_cpu_s(pids), client_cpu = process_cpu_s(getpid());
    uint64_t start = clock_ns();
    measure_from_ns = start;
    uint64_t measured = produce_at_rate(in, reports, start, seconds);
    wait_received(sent + measured);
    double took = (double)(clock_ns() - start) / 1e9;
    broker_cpu = brokers_cpu_s(pids) - broker_cpu;
    printf("{\"records\": %lu, \"seconds\": %.3f, \"rate\": %.0f, ", measured, took, (double)measured / took);
    print_latencies(&latencies);
    printf(", \"broker_cpu_s\": %.3f, \"broker_cpu_us\": %.3f, \"broker_rss_mb\": %.1f, \"client_cpu_s\": %.3f}\n", broker_cpu,
           broker_cpu * 1e6 / (double)measured, brokers_rss_mb(pids), process_cpu_s(getpid()) - client_cpu);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    struct option_spec specs[] = {
        TEXT("mode", mode), TEXT("bootstrap", bootstrap), TEXT("topic", topic_name), TEXT("acks", acks), TEXT("compression", compression),
        TEXT("batch-bytes", batch_bytes), TEXT("linger-ms", linger_ms), TEXT("in-flight", in_flight), TEXT("isolation", isolation),
        NUMBER("record-bytes", record_bytes),
        NUMBER("partitions", partitions), TEXT("pids", pids), REAL("seconds", seconds), REAL("warmup", warmup), REAL("rate", rate),
        REAL("count", count), {0}};
    read_options(argc, argv, specs);
    if (strcmp(mode, "produce") == 0 || strcmp(mode, "fill") == 0) run_produce();
    else if (strcmp(mode, "consume") == 0) run_consume();
    else if (strcmp(mode, "latency") == 0) run_latency();
    fprintf(stderr, "rdload: unknown mode %s\n", mode);
    return 2;
}
