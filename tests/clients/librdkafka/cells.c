/* The cells of the client matrix with librdkafka itself. tests/clients/README.md says what the
 * arguments and the lines mean. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rdkafka.h"

enum { TIMEOUT_MS = 20000, ENOUGH = 100, NONE = -1 };

static const char *GIVEN = "given.read";
static const char *FORMS = "given.forms";

static const char *bootstrap, *name, *lossy, *ca, *user, *password;
/* What the cell at work sees or says. */
static char detail[4096];
static int failed;
/* What a producer or consumer of the cell has been told. */
static char said[1024];
/* The first that a client of the cell was told by its callback for errors. */
static char complaint[1024];

static void tell(const char *format, ...) {
    size_t at = strlen(detail);
    va_list args;
    va_start(args, format);
    vsnprintf(detail + at, sizeof detail - at, format, args);
    va_end(args);
}

static void fail(const char *reason) {
    if (!failed) {
        failed = 1;
        detail[0] = 0;
        tell("%s", reason);
    }
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, key, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        fail(error);
}

static void on_error(rd_kafka_t *client, int code, const char *reason, void *opaque) {
    (void)opaque;
    if (code == RD_KAFKA_RESP_ERR__FATAL)
        rd_kafka_fatal_error(client, said, sizeof said);
    if (!complaint[0])
        snprintf(complaint, sizeof complaint, "%s", reason);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err && !said[0])
        snprintf(said, sizeof said, "%s", rd_kafka_err2str(message->err));
}

static void quiet(const rd_kafka_t *client, int level, const char *facility, const char *text) {
    (void)client, (void)level, (void)facility, (void)text;
}

/* A client with further settings, pairs of name and value up to a NULL. */
static rd_kafka_t *client(rd_kafka_type_t type, const char *const *more) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char error[512];
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "client.id", name);
    set(conf, "security.protocol", user ? ca ? "SASL_SSL" : "SASL_PLAINTEXT" : ca ? "SSL" : "PLAINTEXT");
    if (ca)
        set(conf, "ssl.ca.location", ca);
    if (user) {
        set(conf, "sasl.mechanism", "PLAIN");
        set(conf, "sasl.username", user);
        set(conf, "sasl.password", password);
    }
    if (type == RD_KAFKA_CONSUMER) {
        set(conf, "group.id", name);
        set(conf, "enable.auto.commit", "false");
        set(conf, "auto.offset.reset", "error");
    } else {
        set(conf, "message.timeout.ms", "20000");
        set(conf, "message.max.bytes", "6000000");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    }
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, quiet);
    for (; more && *more; more += 2)
        set(conf, more[0], more[1]);
    rd_kafka_t *made = rd_kafka_new(type, conf, error, sizeof error);
    if (!made) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
    return made;
}

struct record {
    const char *key, *value;
    size_t bytes;
    rd_kafka_headers_t *headers;
};

static void topic_of(char *topic, const char *suffix) {
    snprintf(topic, 256, "%s.%s", name, suffix);
}

static void produce(const char *suffix, const struct record *records, int count, const char *const *more) {
    char topic[256];
    topic_of(topic, suffix);
    said[0] = 0;
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, more);
    for (int at = 0; at < count; at++) {
        const struct record *record = &records[at];
        size_t bytes = record->bytes ? record->bytes : record->value ? strlen(record->value) : 0;
        rd_kafka_resp_err_t error = rd_kafka_producev(
            producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_VALUE((void *)record->value, bytes),
            RD_KAFKA_V_KEY(record->key, record->key ? strlen(record->key) : 0),
            RD_KAFKA_V_HEADERS(record->headers ? rd_kafka_headers_copy(record->headers) : NULL),
            RD_KAFKA_V_END);
        if (error)
            fail(rd_kafka_err2str(error));
    }
    if (rd_kafka_flush(producer, TIMEOUT_MS))
        fail("not all records were answered in time");
    if (said[0])
        fail(said);
    rd_kafka_destroy(producer);
}

static void produce_values(const char *suffix, const char *cell, int count, const char *const *more) {
    struct record records[20];
    char values[20][64];
    memset(records, 0, sizeof records);
    for (int at = 0; at < count; at++) {
        snprintf(values[at], sizeof values[at], "%s-%d", cell, at);
        records[at].value = values[at];
    }
    produce(suffix, records, count, more);
}

/* One by one: each record waits for the answer to the one before. The one of that number must be given
 * up. */
static void produce_one_by_one(const char *cell, int count, int given_up, const char *const *more) {
    char topic[256], value[64];
    topic_of(topic, "lost");
    said[0] = 0;
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, more);
    for (int at = 0; at < count && !said[0]; at++) {
        snprintf(value, sizeof value, "%s-%d", cell, at);
        rd_kafka_resp_err_t error = rd_kafka_producev(
            producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_VALUE(value, strlen(value)), RD_KAFKA_V_END);
        if (error)
            fail(rd_kafka_err2str(error));
        if (rd_kafka_flush(producer, TIMEOUT_MS))
            fail("not all records were answered in time");
        if (at == given_up && strcmp(said, rd_kafka_err2str(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)))
            fail(said[0] ? said : "it was not given up");
        else if (at == given_up)
            said[0] = 0;
    }
    if (said[0])
        fail(said);
    rd_kafka_destroy(producer);
}

static rd_kafka_t *reader(const char *topic, int64_t offset) {
    const char *more[] = {"enable.partition.eof", "true", NULL};
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, more);
    rd_kafka_topic_partition_list_t *places = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(places, topic, 0)->offset = offset;
    rd_kafka_resp_err_t error = rd_kafka_assign(consumer, places);
    if (error)
        fail(rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(places);
    said[0] = 0;
    return consumer;
}

static void finish(rd_kafka_t *consumer) {
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
}

/* The next record, or NULL at the end if that is wanted, or when it takes too long. */
static rd_kafka_message_t *next(rd_kafka_t *consumer, int to_end, long long limit_ms) {
    long long deadline = now_ms() + limit_ms;
    while (now_ms() < deadline) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        if (!message)
            continue;
        if (!message->err)
            return message;
        int at_end = message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        if (!at_end && !said[0])
            snprintf(said, sizeof said, "%s", rd_kafka_message_errstr(message));
        rd_kafka_message_destroy(message);
        if (at_end && to_end)
            return NULL;
    }
    if (to_end)
        fail("the end was not reached in time");
    return NULL;
}

static void tell_text(const void *bytes, size_t count) {
    if (bytes)
        tell("%.*s", (int)count, (const char *)bytes);
    else
        tell("null");
}

/* Tells of so many records, with their offsets or without. */
static int see(rd_kafka_t *consumer, int count, int with_offset) {
    for (int at = 0; at < count; at++) {
        rd_kafka_message_t *message = next(consumer, 0, TIMEOUT_MS);
        if (!message)
            return at;
        if (with_offset)
            tell("%lld:", (long long)message->offset);
        tell_text(message->payload, message->len);
        tell(" ");
        rd_kafka_message_destroy(message);
    }
    return count;
}

static int count_to(rd_kafka_t *consumer, int count) {
    int found = 0;
    rd_kafka_message_t *message;
    while (found < count && (message = next(consumer, 0, TIMEOUT_MS))) {
        rd_kafka_message_destroy(message);
        found++;
    }
    return found;
}

static void see_given(int64_t offset) {
    rd_kafka_t *consumer = reader(GIVEN, offset);
    see(consumer, 3, 1);
    finish(consumer);
}

static void seek_to(rd_kafka_t *consumer, int64_t offset) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, GIVEN, NULL);
    rd_kafka_resp_err_t error = rd_kafka_seek(topic, 0, offset, TIMEOUT_MS);
    if (error)
        fail(rd_kafka_err2str(error));
    rd_kafka_topic_destroy(topic);
}

static void list(void) {
    const struct rd_kafka_metadata *metadata;
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, NULL);
    rd_kafka_resp_err_t error;
    long long deadline = now_ms() + TIMEOUT_MS;
    complaint[0] = 0;
    do {
        error = rd_kafka_metadata(producer, 1, NULL, &metadata, 1000);
        rd_kafka_poll(producer, 0);
    } while (error && !complaint[0] && now_ms() < deadline);
    if (error) {
        fail(complaint[0] ? complaint : rd_kafka_err2str(error));
    } else {
        for (int at = 0; at < metadata->topic_cnt; at++)
            if (!strcmp(metadata->topics[at].topic, GIVEN))
                tell("%s:%d", GIVEN, metadata->topics[at].partition_cnt);
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_destroy(producer);
}

static void timestamp(void) {
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, NULL);
    rd_kafka_topic_partition_list_t *places = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(places, GIVEN, 0)->offset = 1700000055500LL;
    rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(consumer, places, TIMEOUT_MS);
    int64_t offset = places->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(places);
    finish(consumer);
    if (error)
        fail(rd_kafka_err2str(error));
    else
        see_given(offset);
}

static void follow(const char *cell, int count) {
    char topic[256], value[64];
    topic_of(topic, "tail");
    rd_kafka_t *consumer = reader(topic, RD_KAFKA_OFFSET_END);
    next(consumer, 1, TIMEOUT_MS);
    for (int at = 0; at < count; at++) {
        struct record record = {NULL, value, 0, NULL};
        snprintf(value, sizeof value, "%s-%d", cell, at);
        produce("tail", &record, 1, NULL);
        see(consumer, 1, 0);
    }
    finish(consumer);
}

static void headers(void) {
    struct record record = {NULL, "headers", 0, rd_kafka_headers_new(4)};
    rd_kafka_header_add(record.headers, "a", -1, "1", 1);
    rd_kafka_header_add(record.headers, "a", -1, "2", 1);
    rd_kafka_header_add(record.headers, "b", -1, NULL, 0);
    rd_kafka_header_add(record.headers, "c", -1, "", 0);
    produce("made", &record, 1, NULL);
    rd_kafka_headers_destroy(record.headers);
    rd_kafka_t *consumer = reader(FORMS, 0);
    rd_kafka_message_t *message = next(consumer, 0, TIMEOUT_MS);
    rd_kafka_headers_t *found;
    if (message && !rd_kafka_message_headers(message, &found)) {
        const char *key;
        const void *value;
        size_t bytes;
        for (size_t at = 0; !rd_kafka_header_get_all(found, at, &key, &value, &bytes); at++) {
            tell("%s=", key);
            tell_text(value, bytes);
            tell(" ");
        }
    }
    if (message)
        rd_kafka_message_destroy(message);
    finish(consumer);
}

static void nulls(void) {
    const struct record records[] = {{"null-value", NULL, 0, NULL},
                                     {"empty-value", "", 0, NULL},
                                     {NULL, "null-key", 0, NULL},
                                     {"", "empty-key", 0, NULL}};
    produce("made", records, 4, NULL);
    rd_kafka_t *consumer = reader(FORMS, 1);
    for (int at = 0; at < 4; at++) {
        rd_kafka_message_t *message = next(consumer, 0, TIMEOUT_MS);
        if (!message)
            break;
        tell_text(message->key, message->key_len);
        tell("=");
        tell_text(message->payload, message->len);
        tell(" ");
        rd_kafka_message_destroy(message);
    }
    finish(consumer);
}

static void sized(size_t bytes) {
    char topic[256];
    int64_t low, high;
    char *value = malloc(bytes);
    memset(value, 'x', bytes);
    struct record record = {NULL, value, bytes, NULL};
    produce("large", &record, 1, NULL);
    free(value);
    topic_of(topic, "large");
    rd_kafka_t *asking = client(RD_KAFKA_CONSUMER, NULL);
    rd_kafka_query_watermark_offsets(asking, topic, 0, &low, &high, TIMEOUT_MS);
    finish(asking);
    rd_kafka_t *consumer = reader(topic, high - 1);
    rd_kafka_message_t *message = next(consumer, 0, TIMEOUT_MS);
    if (message) {
        tell("%zu", message->len);
        rd_kafka_message_destroy(message);
    }
    finish(consumer);
}

static void ends(void) {
    int64_t low, high;
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, NULL);
    rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(consumer, GIVEN, 0, &low, &high, TIMEOUT_MS);
    finish(consumer);
    if (error)
        fail(rd_kafka_err2str(error));
    else
        tell("%lld %lld", (long long)low, (long long)high);
}

static void group(void) {
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, NULL);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, GIVEN, RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(consumer, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    said[0] = 0;
    long long deadline = now_ms() + TIMEOUT_MS;
    while (!said[0] && now_ms() < deadline) {
        rd_kafka_message_t *message = next(consumer, 0, 100);
        if (message)
            rd_kafka_message_destroy(message);
    }
    if (said[0])
        tell("%s", said);
    else
        fail("it was not refused");
    finish(consumer);
}

static void transaction(void) {
    const char *more[] = {"transactional.id", name, NULL};
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, more);
    rd_kafka_error_t *error = rd_kafka_init_transactions(producer, TIMEOUT_MS);
    if (error) {
        tell("%s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    } else {
        fail("it was not refused");
    }
    rd_kafka_destroy(producer);
}

static void group_assign(void) {
    rd_kafka_t *consumer = reader(GIVEN, 0);
    int first = count_to(consumer, ENOUGH);
    long long deadline = now_ms() + 3000;
    while (!said[0] && now_ms() < deadline)
        next(consumer, 0, 100);
    tell("%d then %s then ", first, said[0] ? said : "no error");
    seek_to(consumer, 0);
    tell("%d", count_to(consumer, ENOUGH));
    finish(consumer);
}

static void seek(void) {
    rd_kafka_t *consumer = reader(GIVEN, 10);
    see(consumer, 3, 1);
    seek_to(consumer, 90);
    see(consumer, 3, 1);
    finish(consumer);
}

static void run(const char *cell) {
    const char *codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    for (int at = 0; at < 5; at++) {
        if (!strcmp(cell, codecs[at])) {
            const char *more[] = {"compression.codec", cell, "linger.ms", "100", NULL};
            produce_values("made", cell, 20, more);
            return;
        }
    }
    const char *idempotent[] = {"enable.idempotence", "true", NULL};
    const char *lost[] = {"bootstrap.servers", lossy, NULL};
    const char *lost_idempotent[] = {"bootstrap.servers", lossy, "enable.idempotence", "true", NULL};
    if (!strcmp(cell, "version")) {
        /* What follows a dash says how it was built. */
        tell("%.*s", (int)strcspn(rd_kafka_version_str(), "-"), rd_kafka_version_str());
    } else if (!strncmp(cell, "acks-", 5)) {
        const char *more[] = {"acks", cell + 5, NULL};
        produce_values("made", cell, 1, more);
    } else if (!strcmp(cell, "list")) {
        list();
    } else if (!strcmp(cell, "idempotent")) {
        produce_values("made", cell, 20, idempotent);
    } else if (!strcmp(cell, "earliest")) {
        see_given(RD_KAFKA_OFFSET_BEGINNING);
    } else if (!strcmp(cell, "offset")) {
        see_given(40);
    } else if (!strcmp(cell, "timestamp")) {
        timestamp();
    } else if (!strcmp(cell, "latest")) {
        follow(cell, 1);
    } else if (!strcmp(cell, "tail")) {
        follow(cell, 3);
    } else if (!strcmp(cell, "headers")) {
        headers();
    } else if (!strcmp(cell, "nulls")) {
        nulls();
    } else if (!strcmp(cell, "large")) {
        sized(900000);
    } else if (!strcmp(cell, "huge")) {
        sized(5000000);
    } else if (!strcmp(cell, "seek")) {
        seek();
    } else if (!strcmp(cell, "ends")) {
        ends();
    } else if (!strcmp(cell, "group")) {
        group();
    } else if (!strcmp(cell, "transaction")) {
        transaction();
    } else if (!strcmp(cell, "group-assign")) {
        group_assign();
    } else if (!strcmp(cell, "lost")) {
        produce_values("lost", cell, 10, lost);
    } else if (!strcmp(cell, "lost-idempotent")) {
        produce_values("lost", cell, 10, lost_idempotent);
    } else if (!strcmp(cell, "timed-out")) {
        const char *more[] = {"bootstrap.servers", lossy, "enable.idempotence", "true", "message.timeout.ms",
                              "4000", "socket.timeout.ms", "1000", NULL};
        produce_one_by_one(cell, 3, 1, more);
    } else if (!strcmp(cell, "forgotten")) {
        produce_one_by_one(cell, 3, NONE, lost_idempotent);
    } else {
        fail("its program here knows no such cell");
    }
}

static int option(const char *arg, const char *key, const char **value) {
    size_t bytes = strlen(key);
    if (strncmp(arg, key, bytes) || arg[bytes] != '=')
        return 0;
    *value = arg + bytes + 1;
    return 1;
}

int main(int argc, char **argv) {
    for (int at = 1; at < argc; at++) {
        const char *arg = argv[at];
        if (option(arg, "bootstrap", &bootstrap) || option(arg, "name", &name) ||
            option(arg, "lossy", &lossy) || option(arg, "ca", &ca) || option(arg, "user", &user) ||
            option(arg, "password", &password))
            continue;
        long long begin = now_ms();
        detail[0] = said[0] = 0;
        failed = 0;
        run(arg);
        size_t end = strlen(detail);
        while (end && detail[end - 1] == ' ')
            detail[--end] = 0;
        for (char *each = detail; *each; each++)
            if (*each == '\t' || *each == '\n')
                *each = ' ';
        printf("%s\t%s\t%s\t%lld\n", arg, failed ? "no" : "ok", detail, now_ms() - begin);
        fflush(stdout);
    }
    return 0;
}
