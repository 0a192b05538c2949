"""The cells of the client matrix with aiokafka."""

import asyncio
import ssl

import aiokafka
import cells
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from cells import FORMS, GIVEN, HEADERS, NULLS, TIME_MS, TIMEOUT_S

ENOUGH = 100
LARGE_MAX = 6_000_000


def config(options, bootstrap=None, **more):
    found = {
        "bootstrap_servers": bootstrap or options.bootstrap,
        "security_protocol": options.protocol,
        "client_id": options.name,
    }
    if options.ca:
        found["ssl_context"] = ssl.create_default_context(cafile=options.ca)
    if options.user:
        found["sasl_mechanism"] = "PLAIN"
        found["sasl_plain_username"] = options.user
        found["sasl_plain_password"] = options.password
    return found | more


async def send(options, topic, records, bootstrap=None, headers=None, **more):
    """Produces records (key, value), and raises the first error."""
    async with AIOKafkaProducer(**config(options, bootstrap, **more)) as producer:
        sent = [
            await producer.send(topic, value, key, partition=0, headers=headers)
            for key, value in records
        ]
        await asyncio.gather(*sent)


def values(cell, count=20):
    return [(None, value) for value in cells.numbered(cell, count)]


class Reader:
    """A consumer of one partition, with or without a group.id."""

    def __init__(self, options, topic, **more):
        more = {"enable_auto_commit": False, "auto_offset_reset": "none"} | more
        self.consumer = AIOKafkaConsumer(**config(options, **more))
        self.place = TopicPartition(topic, 0)

    async def __aenter__(self):
        self.consumer.assign([self.place])
        await self.consumer.start()
        return self

    async def __aexit__(self, *_):
        await self.consumer.stop()

    async def read(self, count, offset=None):
        if offset is not None:
            self.consumer.seek(self.place, offset)
        return [await self.consumer.getone() for _ in range(count)]


def shown(records):
    return cells.seen((record.offset, record.value) for record in records)


async def list_topics(options):
    admin = AIOKafkaAdminClient(**config(options))
    await admin.start()
    try:
        topics = await admin.describe_topics([GIVEN])
    finally:
        await admin.close()
    return f"{GIVEN}:{len(topics[0]['partitions'])}"


def acks(cell):
    wanted = {"acks-0": 0, "acks-1": 1, "acks-all": "all"}[cell]

    async def run(options):
        await send(options, options.topic("made"), values(cell, 1), acks=wanted)
        return ""

    return run


def codec(cell):
    async def run(options):
        compression = None if cell == "none" else cell
        more = {"compression_type": compression, "linger_ms": 100}
        await send(options, options.topic("made"), values(cell), **more)
        return ""

    return run


async def idempotent(options):
    await send(options, options.topic("made"), values("idempotent"), enable_idempotence=True)
    return ""


async def earliest(options):
    async with Reader(options, GIVEN) as reader:
        await reader.consumer.seek_to_beginning(reader.place)
        return shown(await reader.read(3))


async def offset(options):
    async with Reader(options, GIVEN) as reader:
        return shown(await reader.read(3, 40))


async def timestamp(options):
    async with Reader(options, GIVEN) as reader:
        found = await reader.consumer.offsets_for_times({reader.place: TIME_MS})
        return shown(await reader.read(3, found[reader.place].offset))


def follow(cell, count):
    async def run(options):
        topic = options.topic("tail")
        async with Reader(options, topic) as reader:
            await reader.consumer.seek_to_end(reader.place)
            found = []
            for value in cells.numbered(cell, count):
                await send(options, topic, [(None, value)])
                found += await reader.read(1)
            return " ".join(record.value.decode() for record in found)

    return run


async def headers(options):
    await send(options, options.topic("made"), [(None, b"headers")], headers=HEADERS)
    async with Reader(options, FORMS) as reader:
        return cells.seen_headers((await reader.read(1, 0))[0].headers)


async def nulls(options):
    await send(options, options.topic("made"), NULLS)
    async with Reader(options, FORMS) as reader:
        return cells.seen_pairs((r.key, r.value) for r in await reader.read(4, 1))


def sized(size):
    async def run(options):
        topic = options.topic("large")
        more = {"max_request_size": LARGE_MAX, "max_batch_size": LARGE_MAX}
        await send(options, topic, [(None, b"x" * size)], **more)
        async with Reader(options, topic, max_partition_fetch_bytes=LARGE_MAX) as reader:
            end = (await reader.consumer.end_offsets([reader.place]))[reader.place]
            return len((await reader.read(1, end - 1))[0].value)

    return run


async def seek(options):
    async with Reader(options, GIVEN) as reader:
        return shown(await reader.read(3, 10) + await reader.read(3, 90))


async def ends(options):
    async with Reader(options, GIVEN) as reader:
        low = await reader.consumer.beginning_offsets([reader.place])
        high = await reader.consumer.end_offsets([reader.place])
        return f"{low[reader.place]} {high[reader.place]}"


async def group(options):
    consumer = AIOKafkaConsumer(GIVEN, **config(options, group_id=options.name))
    try:
        await consumer.start()
        await consumer.getone()
    except KafkaError as error:
        return cells.told(error)
    finally:
        await consumer.stop()
    raise AssertionError("it was not refused")


async def transaction(options):
    producer = AIOKafkaProducer(**config(options, transactional_id=options.name))
    try:
        await producer.start()
    except KafkaError as error:
        return cells.told(error)
    finally:
        await producer.stop()
    raise AssertionError("it was not refused")


async def group_assign(options):
    async with Reader(options, GIVEN, group_id=options.name) as reader:
        first = await read_past_refusals(reader)
        said = "no error"
        try:
            # What stores offsets of the group meets the refusal in any case.
            await reader.consumer.commit()
        except KafkaError as error:
            said = cells.told(error)
        return f"{first} then {said} then {await read_past_refusals(reader)}"


async def read_past_refusals(reader):
    """Some polls raise the refusal, depending on who is first."""
    reader.consumer.seek(reader.place, 0)
    found = 0
    while found < ENOUGH:
        try:
            await reader.consumer.getone()
            found += 1
        except GroupAuthorizationFailedError:
            continue
    return found


def lost(cell):
    async def run(options):
        more = {"enable_idempotence": cell == "lost-idempotent", "acks": "all"}
        await send(options, options.topic("lost"), values(cell, 10), options.lossy, **more)
        return ""

    return run


async def forgotten(options):
    more = {"enable_idempotence": True}
    async with AIOKafkaProducer(**config(options, options.lossy, **more)) as producer:
        for value in cells.numbered("forgotten", 3):
            await producer.send_and_wait(options.topic("lost"), value, partition=0)
    return ""


async def timed_out(options):
    more = {"enable_idempotence": True, "request_timeout_ms": 1000}
    producer = AIOKafkaProducer(**config(options, options.lossy, **more))
    await producer.start()
    for number, value in enumerate(cells.numbered("timed-out", 3)):
        sent = producer.send_and_wait(options.topic("lost"), value, partition=0)
        try:
            await asyncio.wait_for(sent, TIMEOUT_S / 4)
        except asyncio.TimeoutError:
            # Nor would it stop before that record is answered, so it is left as it is.
            raise cells.Limit("it never gives up a record of an idempotent producer") from None
        except KafkaError:
            if number != 1:
                raise
    await producer.stop()
    return ""


async def version(_):
    return aiokafka.__version__


def bounded(cell):
    """Each ends, and what does not end by itself says so."""

    async def run(options):
        try:
            return await asyncio.wait_for(cell(options), TIMEOUT_S)
        except asyncio.TimeoutError:
            raise AssertionError(f"it did not end within {TIMEOUT_S} s") from None

    return lambda options: asyncio.run(run(options))


ALL = (
    {"version": version, "list": list_topics, "idempotent": idempotent, "earliest": earliest}
    | {"forgotten": forgotten, "timed-out": timed_out}
    | {cell: acks(cell) for cell in ("acks-0", "acks-1", "acks-all")}
    | {cell: codec(cell) for cell in cells.CODECS}
    | {"offset": offset, "timestamp": timestamp, "headers": headers, "nulls": nulls}
    | {"latest": follow("latest", 1), "tail": follow("tail", 3), "seek": seek, "ends": ends}
    | {"large": sized(900_000), "huge": sized(5_000_000), "group": group}
    | {"transaction": transaction, "group-assign": group_assign}
    | {cell: lost(cell) for cell in ("lost", "lost-idempotent")}
)
cells.main({cell: bounded(run) for cell, run in ALL.items()})
