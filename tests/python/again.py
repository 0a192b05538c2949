"""Produces with acks=all until it is told to end (SIGTERM), and prints what was acknowledged.

Usage: again.py BOOTSTRAP PARTITIONS NAME TOPIC[,TOPIC ...] [NAME=VALUE ...]

What is not answered is sent again by the client's own rules, to the broker that comes next if need
be. So every record is acknowledged in the end, and one whose answer was lost may be there twice. A
value is NAME:SEQUENCE: and padding of varying length. For each acknowledged record a line: topic,
partition, offset, value. Fails if a record was not delivered.
"""

import random
import signal
import sys
import zlib

from confluent_kafka import Producer

IN_FLIGHT_MAX = 200


def main():
    bootstrap, partitions, name, topics, *properties = sys.argv[1:]
    partitions, topics = int(partitions), topics.split(",")
    settings = dict(property.split("=", 1) for property in properties)
    settings |= {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "message.timeout.ms": 80000,
        "enable.idempotence": False,
        # More than one request under way could put a batch that is sent again behind the next one.
        "max.in.flight.requests.per.connection": 1,
    }
    is_told = False

    def tell(_signal, _frame):
        nonlocal is_told
        is_told = True

    signal.signal(signal.SIGTERM, tell)
    producer = Producer(settings | {"error_cb": lambda _error: None}, logger=None)
    sizes = random.Random(zlib.crc32(name.encode()))

    def delivered(error, message):
        if error is not None:
            sys.exit(f"not delivered: {error}")
        print(message.topic(), message.partition(), message.offset(), message.value().decode())

    sequence = 0
    while not is_told:
        if len(producer) < IN_FLIGHT_MAX:
            value = f"{name}:{sequence}:" + "x" * sizes.randrange(600)
            topic = topics[sequence // partitions % len(topics)]
            producer.produce(topic, value, partition=sequence % partitions, on_delivery=delivered)
            sequence += 1
            events = producer.poll(0)
        else:
            events = producer.poll(0.1)
        if events:
            sys.stdout.flush()
    left = producer.flush(85)
    if left:
        sys.exit(f"{left} records were not answered")
    sys.stdout.flush()


main()
