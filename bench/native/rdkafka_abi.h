/* The part of librdkafka's public interface that rdload and txnload use.
 *
 * The library itself comes with the confluent-kafka wheel, which has no header in it; declaring the two dozen functions
 * here means that the benchmarks need nothing but a C compiler, and that they measure the very library that
 * Python users run. The layout of rd_kafka_message_t and these signatures are stable across librdkafka 1.x and 2.x.
 */
#ifndef RDKAFKA_ABI_H
#define RDKAFKA_ABI_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_op_s rd_kafka_event_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_CONF_OK = 0 };
enum { RD_KAFKA_MSG_F_COPY = 2 };
enum { RD_KAFKA_EVENT_DR = 0x1, RD_KAFKA_EVENT_ERROR = 0x8 };
enum { RD_KAFKA_OFFSET_BEGINNING = -2, RD_KAFKA_OFFSET_END = -1 };
enum { RD_KAFKA_RESP_ERR_QUEUE_FULL = -184, RD_KAFKA_RESP_ERR_PARTITION_EOF = -191 };

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error, size_t error_size);
void rd_kafka_conf_set_events(rd_kafka_conf_t *conf, int events);
rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *conf, char *error, size_t error_size);
void rd_kafka_destroy(rd_kafka_t *rk);
const char *rd_kafka_version_str(void);
const char *rd_kafka_err2str(int err);
int rd_kafka_last_error(void);
int rd_kafka_fatal_error(rd_kafka_t *rk, char *error, size_t error_size);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *rk, const char *topic, rd_kafka_topic_conf_t *conf);
void rd_kafka_topic_destroy(rd_kafka_topic_t *topic);

int rd_kafka_produce(rd_kafka_topic_t *topic, int32_t partition, int flags, void *payload, size_t len, const void *key, size_t key_len,
                     void *opaque);
int rd_kafka_outq_len(rd_kafka_t *rk);
int rd_kafka_flush(rd_kafka_t *rk, int timeout_ms);
rd_kafka_queue_t *rd_kafka_queue_get_main(rd_kafka_t *rk);
rd_kafka_event_t *rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms);
int rd_kafka_event_type(const rd_kafka_event_t *event);
size_t rd_kafka_event_message_count(rd_kafka_event_t *event);
const rd_kafka_message_t *rd_kafka_event_message_next(rd_kafka_event_t *event);
int rd_kafka_event_error(rd_kafka_event_t *event);
const char *rd_kafka_event_error_string(rd_kafka_event_t *event);
void rd_kafka_event_destroy(rd_kafka_event_t *event);

rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *rk);
void rd_kafka_queue_destroy(rd_kafka_queue_t *queue);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *topic, int32_t partition, int64_t offset, rd_kafka_queue_t *queue);
int rd_kafka_consume_stop(rd_kafka_topic_t *topic, int32_t partition);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **messages, size_t size);
void rd_kafka_message_destroy(rd_kafka_message_t *message);

rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *rk, int timeout_ms);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *rk);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
rd_kafka_error_t *rd_kafka_abort_transaction(rd_kafka_t *rk, int timeout_ms);
const char *rd_kafka_error_string(const rd_kafka_error_t *error);
#endif
