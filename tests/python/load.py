"""Produces with acks=all until the broker goes away, and prints what was acknowledged.

Usage: load.py BOOTSTRAP TOPIC PARTITIONS NAME [NAME=VALUE ...]

Each record is sent once and never again, so one that was written but not acknowledged cannot
come twice. A value is NAME:SEQUENCE: and padding of varying length. For each acknowledged record
a line: partition, offset, value. Exits with 0 once a record has failed and all are answered.
"""

import random
import sys
import zlib

from confluent_kafka import Producer

IN_FLIGHT_MAX = 2000


def main():
    bootstrap, topic, partitions, name, *properties = sys.argv[1:]
    settings = dict(property.split("=", 1) for property in properties)
    settings |= {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "message.send.max.retries": 0,
        "message.timeout.ms": 20000,
        "enable.idempotence": False,
    }
    failed = False

    def lost(_error):
        # Nothing may be under way when the broker goes, and then no record fails for long.
        nonlocal failed
        failed = True

    producer = Producer(settings | {"error_cb": lost}, logger=None)
    sizes = random.Random(zlib.crc32(name.encode()))

    def delivered(error, message):
        nonlocal failed
        if error is not None:
            failed = True
        else:
            print(message.partition(), message.offset(), message.value().decode())

    sequence = 0
    while not failed:
        if len(producer) < IN_FLIGHT_MAX:
            value = f"{name}:{sequence}:" + "x" * sizes.randrange(600)
            producer.produce(topic, value, partition=sequence % int(partitions), on_delivery=delivered)
            sequence += 1
            events = producer.poll(0)
        else:
            events = producer.poll(0.1)
        if events:
            sys.stdout.flush()
    # What was not sent is not to be sent to the broker that comes next.
    producer.purge(in_queue=True, in_flight=True)
    producer.flush(30)
    sys.stdout.flush()


main()
