"""The cells of the client matrix with confluent-kafka: librdkafka at its newest."""

import time

import cells
import confluent_kafka
from cells import FORMS, GIVEN, HEADERS, NULLS, TIME_MS, TIMEOUT_S
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

ENOUGH = 100


def config(options, bootstrap=None, **more):
    found = {
        "bootstrap.servers": bootstrap or options.bootstrap,
        "security.protocol": options.protocol,
        "log_level": 0,
    }
    if options.ca:
        found["ssl.ca.location"] = options.ca
    if options.user:
        found.update({"sasl.mechanism": "PLAIN", "sasl.username": options.user})
        found["sasl.password"] = options.password
    found.update({name.replace("_", "."): value for name, value in more.items()})
    return found


def send(options, topic, records, bootstrap=None, headers=None, **more):
    """Produces records (key, value), and raises the first error."""
    errors = []
    more.setdefault("message_timeout_ms", TIMEOUT_S * 1000)
    producer = Producer(config(options, bootstrap, **more))
    report = lambda error, _: errors.append(error) if error else None
    try:
        for key, value in records:
            producer.produce(topic, value, key, partition=0, headers=headers, on_delivery=report)
        left = producer.flush(TIMEOUT_S)
    except SystemError as error:
        # It lets callbacks run after a fatal error, and then tells that error as a cause only.
        raise error.__cause__
    if errors:
        raise KafkaException(errors[0])
    assert left == 0, f"{left} records were not answered"


def values(cell, count=20):
    return [(None, value) for value in cells.numbered(cell, count)]


class Reader:
    """A consumer of one partition. This client insists on a group.id."""

    def __init__(self, options, topic, offset, **more):
        settings = config(options, group_id=options.name, enable_auto_commit=False, **more)
        settings["auto.offset.reset"] = "error"
        self.errors = []
        self.consumer = Consumer(settings)
        self.consumer.assign([TopicPartition(topic, 0, offset)])

    def read(self, count, timeout_s=TIMEOUT_S):
        deadline = time.monotonic() + timeout_s
        found = []
        while len(found) < count and time.monotonic() < deadline:
            message = self.consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                self.errors.append(message.error())
            else:
                found.append(message)
        return found


def given(options, offset, count=3):
    reader = Reader(options, GIVEN, offset)
    return cells.seen((m.offset(), m.value()) for m in reader.read(count))


def list_topics(options):
    complaints = []
    client = AdminClient(config(options) | {"error_cb": complaints.append})
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            topics = client.list_topics(timeout=1).topics
            break
        except KafkaException:
            client.poll(0)
            if complaints:
                raise KafkaException(complaints[0]) from None
            if time.monotonic() > deadline:
                raise
    return f"{GIVEN}:{len(topics[GIVEN].partitions)}"


def acks(cell):
    def run(options):
        send(options, options.topic("made"), values(cell, 1), acks=cell.removeprefix("acks-"))
        return ""

    return run


def codec(cell):
    def run(options):
        more = {"compression_codec": cell, "linger_ms": 100}
        send(options, options.topic("made"), values(cell), **more)
        return ""

    return run


def idempotent(options):
    send(options, options.topic("made"), values("idempotent"), enable_idempotence=True)
    return ""


def timestamp(options):
    consumer = Consumer(config(options, group_id=options.name))
    wanted = [TopicPartition(GIVEN, 0, TIME_MS)]
    return given(options, consumer.offsets_for_times(wanted, TIMEOUT_S)[0].offset)


def follow(cell, count):
    def run(options):
        topic = options.topic("tail")
        reader = Reader(options, topic, confluent_kafka.OFFSET_END, enable_partition_eof=True)
        while not any(e.code() == confluent_kafka.KafkaError._PARTITION_EOF for e in reader.errors):
            reader.read(1, 0.2)
        found = []
        for value in cells.numbered(cell, count):
            send(options, topic, [(None, value)])
            found += reader.read(1)
        return " ".join(message.value().decode() for message in found)

    return run


def headers(options):
    send(options, options.topic("made"), [(None, b"headers")], headers=HEADERS)
    return cells.seen_headers(Reader(options, FORMS, 0).read(1)[0].headers())


def nulls(options):
    send(options, options.topic("made"), NULLS)
    return cells.seen_pairs((m.key(), m.value()) for m in Reader(options, FORMS, 1).read(4))


def sized(size):
    def run(options):
        topic = options.topic("large")
        send(options, topic, [(None, b"x" * size)], message_max_bytes=6_000_000)
        consumer = Consumer(config(options, group_id=options.name))
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
        return len(Reader(options, topic, end - 1).read(1)[0].value())

    return run


def seek(options):
    reader = Reader(options, GIVEN, 10)
    found = reader.read(3)
    reader.consumer.seek(TopicPartition(GIVEN, 0, 90))
    found += reader.read(3)
    return cells.seen((m.offset(), m.value()) for m in found)


def ends(options):
    consumer = Consumer(config(options, group_id=options.name))
    low, high = consumer.get_watermark_offsets(TopicPartition(GIVEN, 0), TIMEOUT_S)
    return f"{low} {high}"


def group(options):
    errors = []
    settings = config(options, group_id=options.name)
    consumer = Consumer(settings)
    consumer.subscribe([GIVEN])
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error():
            errors.append(message.error())
    assert errors, "it was not refused"
    return errors[0].str()


def transaction(options):
    producer = Producer(config(options, transactional_id=options.name))
    try:
        producer.init_transactions(TIMEOUT_S)
    except KafkaException as error:
        return error.args[0].str()
    raise AssertionError("it was not refused")


def group_assign(options):
    reader = Reader(options, GIVEN, 0)
    first = reader.read(ENOUGH)
    deadline = time.monotonic() + 3
    while not reader.errors and time.monotonic() < deadline:
        reader.read(1, 0.2)
    said = reader.errors[0].str() if reader.errors else "no error"
    reader.consumer.seek(TopicPartition(GIVEN, 0, 0))
    return f"{len(first)} then {said} then {len(reader.read(ENOUGH))}"


def lost(cell):
    def run(options):
        more = {"enable_idempotence": cell == "lost-idempotent", "acks": "all"}
        send(options, options.topic("lost"), values(cell, 10), options.lossy, **more)
        return ""

    return run


def one_by_one(cell, given_up=None, **more):
    """Each record waits for the answer to the one before. The one of that number must be given up."""

    def run(options):
        errors = []
        settings = {"message_timeout_ms": TIMEOUT_S * 1000, "enable_idempotence": True} | more
        producer = Producer(config(options, options.lossy, **settings))
        for number, value in enumerate(cells.numbered(cell, 3)):
            report = lambda error, _: errors.append(error) if error else None
            producer.produce(options.topic("lost"), value, partition=0, on_delivery=report)
            left = producer.flush(TIMEOUT_S)
            assert left == 0, "a record was not answered"
            if number == given_up:
                assert errors, "it was not given up"
                if errors[0].code() == confluent_kafka.KafkaError._MSG_TIMED_OUT:
                    errors.clear()
            if errors:
                raise KafkaException(errors[0])
        return ""

    return run


def version(_):
    return f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"


cells.main(
    {"version": version, "list": list_topics, "idempotent": idempotent, "headers": headers}
    | {cell: acks(cell) for cell in ("acks-0", "acks-1", "acks-all")}
    | {cell: codec(cell) for cell in cells.CODECS}
    | {"earliest": lambda o: given(o, confluent_kafka.OFFSET_BEGINNING)}
    | {"offset": lambda o: given(o, 40), "timestamp": timestamp, "seek": seek, "ends": ends}
    | {"latest": follow("latest", 1), "tail": follow("tail", 3), "nulls": nulls}
    | {"large": sized(900_000), "huge": sized(5_000_000), "group": group}
    | {"transaction": transaction, "group-assign": group_assign}
    | {"timed-out": one_by_one("timed-out", 1, message_timeout_ms=4000, socket_timeout_ms=1000)}
    | {"forgotten": one_by_one("forgotten")}
    | {cell: lost(cell) for cell in ("lost", "lost-idempotent")}
)
