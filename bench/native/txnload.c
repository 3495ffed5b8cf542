/* Transactions through librdkafka.
 *
 * txnload --mode run    one producer, one transaction after the other, each of --records records over all partitions:
 *                       rate, latency from the first record to the answer of the commit, and the broker's CPU time
 * txnload --mode fill   --producers of them at once, until --count transactions ended, each in one partition; every
 *                       --abort-every th is aborted: data for a consume run
 *
 * Prints one JSON object. Exit code 1: an error from the broker; 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "measure.h"
#include "rdkafka_abi.h"

#define WITHIN_MS 60000

static const char *mode = "run", *bootstrap = "127.0.0.1:9092", *topic_name = "bench", *pids = "";
static int record_bytes = 100, partitions = 3, records = 10, producers = 1, abort_every = 5;
static double seconds = 5, warmup = 1, count = 0;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "txnload: %s: %s\n", what, why);
    exit(1);
}

static void check(const char *what, rd_kafka_error_t *error) {
    if (error) fail(what, rd_kafka_error_string(error));
}

static rd_kafka_t *new_producer(int number) {
    char error_text[512], id[512];
    const char *settings[][2] = {{"bootstrap.servers", bootstrap}, {"transactional.id", id}, {"linger.ms", "0"}};
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    snprintf(id, sizeof id, "%s-%d", topic_name, number);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], error_text, sizeof error_text) != RD_KAFKA_CONF_OK)
            fail(settings[i][0], error_text);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error_text, sizeof error_text);
    if (!rk) fail("producer", error_text);
    check("init_transactions", rd_kafka_init_transactions(rk, WITHIN_MS));
    return rk;
}

static void send(rd_kafka_topic_t *topic, int32_t partition, char *payload) {
    if (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, payload, (size_t)record_bytes, NULL, 0, NULL) < 0)
        fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
}

/* ---- one after the other ------------------------------------------------------------------------------------------ */

static uint64_t run_until(rd_kafka_t *rk, rd_kafka_topic_t *topic, char *payload, uint64_t until_ns, struct samples *samples) {
    uint64_t done = 0;
    for (; clock_ns() < until_ns; done++) {
        uint64_t began = clock_ns();
        check("begin_transaction", rd_kafka_begin_transaction(rk));
        for (int i = 0; i < records; i++) send(topic, i % partitions, payload);
        check("commit_transaction", rd_kafka_commit_transaction(rk, WITHIN_MS));
        if (samples) add_sample(samples, clock_ns() - began);
    }
    return done;
}

static void run(void) {
    rd_kafka_t *rk = new_producer(0);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, topic_name, NULL);
    char *payload = calloc(1, (size_t)record_bytes);
    struct samples samples = {0};
    run_until(rk, topic, payload, clock_ns() + (uint64_t)(warmup * 1e9), NULL);
    double broker_cpu = brokers_cpu_s(pids), client_cpu = process_cpu_s(getpid());
    uint64_t start = clock_ns();
    uint64_t done = run_until(rk, topic, payload, start + (uint64_t)(seconds * 1e9), &samples);
    double took = (double)(clock_ns() - start) / 1e9;
    broker_cpu = brokers_cpu_s(pids) - broker_cpu;
    printf("{\"transactions\": %lu, \"seconds\": %.3f, \"rate\": %.1f, ", done, took, (double)done / took);
    print_latencies(&samples);
    printf(", \"broker_cpu_s\": %.3f, \"broker_cpu_us\": %.3f, \"broker_rss_mb\": %.1f, \"client_cpu_s\": %.3f}\n", broker_cpu,
           broker_cpu * 1e6 / (double)done, brokers_rss_mb(pids), process_cpu_s(getpid()) - client_cpu);
    fflush(stdout);
    _exit(0);
}

/* ---- many at once ------------------------------------------------------------------------------------------------- */

static atomic_uint_fast64_t begun, committed, aborted;

static void *fill_some(void *number) {
    rd_kafka_t *rk = new_producer((int)(intptr_t)number);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, topic_name, NULL);
    char *payload = calloc(1, (size_t)record_bytes);
    for (uint64_t n; (n = begun++) < (uint64_t)count;) {
        int aborts = n % (uint64_t)abort_every == 0;
        check("begin_transaction", rd_kafka_begin_transaction(rk));
        for (int i = 0; i < records; i++) send(topic, (int32_t)(n % (uint64_t)partitions), payload);
        if (aborts) {
            /* what was not sent yet would be dropped, and never be in the log */
            if (rd_kafka_flush(rk, WITHIN_MS)) fail("flush", "records were not delivered");
            check("abort_transaction", rd_kafka_abort_transaction(rk, WITHIN_MS));
            aborted++;
        } else {
            check("commit_transaction", rd_kafka_commit_transaction(rk, WITHIN_MS));
            committed++;
        }
    }
    return NULL;
}

static void fill(void) {
    pthread_t *threads = calloc((size_t)producers, sizeof *threads);
    for (int i = 0; i < producers; i++) pthread_create(&threads[i], NULL, fill_some, (void *)(intptr_t)i);
    for (int i = 0; i < producers; i++) pthread_join(threads[i], NULL);
    printf("{\"committed\": %lu, \"aborted\": %lu}\n", committed * (uint64_t)records, aborted * (uint64_t)records);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    struct option_spec specs[] = {
        TEXT("mode", mode), TEXT("bootstrap", bootstrap), TEXT("topic", topic_name), TEXT("pids", pids),
        NUMBER("record-bytes", record_bytes), NUMBER("partitions", partitions), NUMBER("records", records),
        NUMBER("producers", producers), NUMBER("abort-every", abort_every), REAL("seconds", seconds), REAL("warmup", warmup),
        REAL("count", count), {0}};
    read_options(argc, argv, specs);
    if (strcmp(mode, "run") == 0) run();
    else if (strcmp(mode, "fill") == 0) fill();
    fprintf(stderr, "txnload: unknown mode %s\n", mode);
    return 2;
}
