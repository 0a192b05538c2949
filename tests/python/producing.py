"""What scripts share that produce until something happens and print what was acknowledged.

A value is NAME:SEQUENCE: and padding of varying length. For each acknowledged record there is a line:
topic, partition, offset, value.
"""

import random
import sys
import zlib

from confluent_kafka import Producer


def producer(bootstrap, properties, own):
    """A producer with acks=all and a script's own settings; the properties come before those."""
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": False} | own
    settings |= dict(property.split("=", 1) for property in properties)
    return Producer(settings, logger=None)


def values(name):
    """Each record's number and value."""
    sizes = random.Random(zlib.crc32(name.encode()))
    sequence = 0
    while True:
        yield sequence, f"{name}:{sequence}:" + "x" * sizes.randrange(600)
        sequence += 1


def tell(message):
    print(message.topic(), message.partition(), message.offset(), message.value().decode())


def produce(producer, in_flight_max, is_over, send):
    """Sends as long as it is not over and not too much is under way, and prints what comes back."""
    while not is_over():
        if len(producer) < in_flight_max:
            send()
            events = producer.poll(0)
        else:
            events = producer.poll(0.1)
        if events:
            sys.stdout.flush()
