"""Produces lines of timestamp, key, value from standard input to partition 0, in their order, with
timestamps as given (milliseconds since 1970, not 0).

Usage: stamped.py BOOTSTRAP TOPIC [NAME=VALUE ...]

Further arguments are properties of the producer. Fails if a record was not delivered.
"""

import sys

from confluent_kafka import Producer


def main():
    bootstrap, topic, *properties = sys.argv[1:]
    settings = dict(property.split("=", 1) for property in properties)
    # More than one request under way could put a batch that is sent again behind the next one.
    own = {"message.timeout.ms": 60000, "max.in.flight.requests.per.connection": 1}
    producer = Producer({"bootstrap.servers": bootstrap} | own | settings)

    def report(error, message):
        if error is not None:
            sys.exit(f"not delivered: {error}")

    for line in sys.stdin.buffer.read().splitlines():
        timestamp, key, value = line.split(b"\t", 2)
        while True:
            try:
                producer.produce(
                    topic, value, key, 0, timestamp=int(timestamp), on_delivery=report
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(90)
    if left:
        sys.exit(f"{left} records were not answered")


main()
