"""Produces lines of key, tab, value from standard input; an empty key is none.

Usage: produce.py BOOTSTRAP TOPIC [NAME=VALUE ...]

Further arguments are properties of the producer. Prints partition and offset of each record in
the order of the input, and fails if one was not delivered.
"""

import sys

from confluent_kafka import Producer


def main():
    bootstrap, topic, *properties = sys.argv[1:]
    settings = dict(property.split("=", 1) for property in properties)
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 60000} | settings)
    lines = sys.stdin.buffer.read().splitlines()
    places = [None] * len(lines)

    def delivered(number):
        def report(error, message):
            if error is not None:
                sys.exit(f"line {number}: {error}")
            places[number] = (message.partition(), message.offset())

        return report

    for number, line in enumerate(lines):
        key, value = line.split(b"\t", 1)
        while True:
            try:
                producer.produce(topic, value, key or None, on_delivery=delivered(number))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(90)
    if left or None in places:
        sys.exit(f"{left} records were not answered")
    for partition, offset in places:
        print(partition, offset)


main()
