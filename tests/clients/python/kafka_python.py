"""The cells of the client matrix with kafka-python, which is Python from end to end."""

import time

import cells
import kafka
from cells import FORMS, GIVEN, HEADERS, NULLS, TIME_MS, TIMEOUT_S
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

ENOUGH = 100
LARGE_MAX = 6_000_000


def config(options, bootstrap=None, **more):
    found = {
        "bootstrap_servers": bootstrap or options.bootstrap,
        "security_protocol": options.protocol,
        "client_id": options.name,
        "bootstrap_timeout_ms": 5_000,
    }
    if options.ca:
        found["ssl_cafile"] = options.ca
    if options.user:
        found["sasl_mechanism"] = "PLAIN"
        found["sasl_plain_username"] = options.user
        found["sasl_plain_password"] = options.password
    return found | more


def send(options, topic, records, bootstrap=None, headers=None, **more):
    """Produces records (key, value), and raises the first error."""
    more = {"enable_idempotence": False, "max_block_ms": TIMEOUT_S * 1000} | more
    producer = KafkaProducer(**config(options, bootstrap, **more))
    try:
        sent = [
            producer.send(topic, value, key, headers, partition=0) for key, value in records
        ]
        for future in sent:
            future.get(timeout=TIMEOUT_S)
    finally:
        producer.close(timeout=1)


def values(cell, count=20):
    return [(None, value) for value in cells.numbered(cell, count)]


class Reader:
    """A consumer of one partition, with or without a group.id."""

    def __init__(self, options, topic, **more):
        more = {"enable_auto_commit": False, "auto_offset_reset": "none"} | more
        self.consumer = KafkaConsumer(**config(options, **more))
        self.place = TopicPartition(topic, 0)
        self.consumer.assign([self.place])

    def at(self, offset):
        self.consumer.seek(self.place, offset)
        return self

    def read(self, count, timeout_s=TIMEOUT_S):
        deadline = time.monotonic() + timeout_s
        found = []
        while len(found) < count and time.monotonic() < deadline:
            polled = self.consumer.poll(timeout_ms=200, max_records=count - len(found))
            found += [record for records in polled.values() for record in records]
        return found


def shown(records):
    return cells.seen((record.offset, record.value) for record in records)


def list_topics(options):
    consumer = KafkaConsumer(**config(options))
    assert GIVEN in consumer.topics()
    return f"{GIVEN}:{len(consumer.partitions_for_topic(GIVEN))}"


def acks(cell):
    wanted = {"acks-0": 0, "acks-1": 1, "acks-all": "all"}[cell]

    def run(options):
        send(options, options.topic("made"), values(cell, 1), acks=wanted)
        return ""

    return run


def codec(cell):
    def run(options):
        compression = None if cell == "none" else cell
        more = {"compression_type": compression, "linger_ms": 100}
        send(options, options.topic("made"), values(cell), **more)
        return ""

    return run


def idempotent(options):
    send(options, options.topic("made"), values("idempotent"), enable_idempotence=True)
    return ""


def earliest(options):
    reader = Reader(options, GIVEN)
    reader.consumer.seek_to_beginning(reader.place)
    return shown(reader.read(3))


def timestamp(options):
    reader = Reader(options, GIVEN)
    found = reader.consumer.offsets_for_times({reader.place: TIME_MS})
    return shown(reader.at(found[reader.place].offset).read(3))


def follow(cell, count):
    def run(options):
        topic = options.topic("tail")
        reader = Reader(options, topic)
        reader.consumer.seek_to_end(reader.place)
        reader.consumer.position(reader.place)
        found = []
        for value in cells.numbered(cell, count):
            send(options, topic, [(None, value)])
            found += reader.read(1)
        return " ".join(record.value.decode() for record in found)

    return run


def headers(options):
    seen = cells.seen_headers(Reader(options, FORMS).at(0).read(1)[0].headers)
    try:
        send(options, options.topic("made"), [(None, b"headers")], headers=HEADERS)
    except TypeError as error:
        raise cells.Limit(f"it reads {seen} and cannot write the null: {error}") from error
    return seen


def nulls(options):
    send(options, options.topic("made"), NULLS)
    return cells.seen_pairs((r.key, r.value) for r in Reader(options, FORMS).at(1).read(4))


def sized(size):
    def run(options):
        topic = options.topic("large")
        send(options, topic, [(None, b"x" * size)], max_request_size=LARGE_MAX)
        reader = Reader(options, topic, max_partition_fetch_bytes=LARGE_MAX)
        end = reader.consumer.end_offsets([reader.place])[reader.place]
        return len(reader.at(end - 1).read(1)[0].value)

    return run


def seek(options):
    reader = Reader(options, GIVEN)
    found = reader.at(10).read(3)
    return shown(found + reader.at(90).read(3))


def ends(options):
    reader = Reader(options, GIVEN)
    low = reader.consumer.beginning_offsets([reader.place])[reader.place]
    high = reader.consumer.end_offsets([reader.place])[reader.place]
    return f"{low} {high}"


def group(options):
    consumer = KafkaConsumer(GIVEN, **config(options, group_id=options.name))
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            consumer.poll(timeout_ms=500)
    except KafkaError as error:
        return cells.told(error)
    raise AssertionError("it was not refused")


def transaction(options):
    more = {"transactional_id": options.name, "max_block_ms": TIMEOUT_S * 1000}
    producer = KafkaProducer(**config(options, **more))
    try:
        producer.init_transactions()
    except KafkaError as error:
        return cells.told(error)
    finally:
        producer.close(timeout=1)
    raise AssertionError("it was not refused")


def group_assign(options):
    reader = Reader(options, GIVEN, group_id=options.name)
    refused = []
    reader.at(0)
    deadline = time.monotonic() + TIMEOUT_S / 4
    found = 0
    while found < ENOUGH and time.monotonic() < deadline:
        try:
            found += len(reader.read(ENOUGH - found, 1))
        except KafkaError as error:
            refused.append(cells.told(error))
    if found < ENOUGH:
        raise cells.Limit(f"it reads {found}; each poll raises {refused[0]}")
    return f"{found} beside {refused}"


def lost(cell):
    def run(options):
        more = {"enable_idempotence": cell == "lost-idempotent", "acks": "all"}
        send(options, options.topic("lost"), values(cell, 10), options.lossy, **more)
        return ""

    return run


def one_by_one(cell, given_up=None, **more):
    """Each record waits for the answer to the one before. The one of that number must be given up."""

    def run(options):
        settings = {"enable_idempotence": True, "max_block_ms": TIMEOUT_S * 1000} | more
        producer = KafkaProducer(**config(options, options.lossy, **settings))
        try:
            for number, value in enumerate(cells.numbered(cell, 3)):
                sent = producer.send(options.topic("lost"), value, partition=0)
                try:
                    sent.get(timeout=TIMEOUT_S / 2)
                except KafkaTimeoutError:
                    if number != given_up:
                        raise
                else:
                    assert number != given_up, "it was not given up"
        finally:
            producer.close(timeout=1)
        return ""

    return run


cells.main(
    {"version": lambda _: kafka.__version__, "list": list_topics, "idempotent": idempotent}
    | {cell: acks(cell) for cell in ("acks-0", "acks-1", "acks-all")}
    | {cell: codec(cell) for cell in cells.CODECS}
    | {"earliest": earliest, "offset": lambda o: shown(Reader(o, GIVEN).at(40).read(3))}
    | {"timestamp": timestamp, "latest": follow("latest", 1), "tail": follow("tail", 3)}
    | {"headers": headers, "nulls": nulls, "large": sized(900_000), "huge": sized(5_000_000)}
    | {"seek": seek, "ends": ends, "group": group, "transaction": transaction}
    | {"group-assign": group_assign, "forgotten": one_by_one("forgotten")}
    | {"timed-out": one_by_one("timed-out", 1, delivery_timeout_ms=4000, request_timeout_ms=1000)}
    | {cell: lost(cell) for cell in ("lost", "lost-idempotent")}
)
