"""Produces with acks=all until it is told to end (SIGTERM), and prints what was acknowledged.

Usage: again.py BOOTSTRAP PARTITIONS NAME TOPIC[,TOPIC ...] [NAME=VALUE ...]

What is not answered is sent again by the client's own rules, to the broker that comes next if need
be. So every record is acknowledged in the end, and one whose answer was lost may be there twice,
unless a property makes the producer idempotent.
Values and lines are those of producing.py. Fails if a record was not delivered.
"""

import signal
import sys

import producing

IN_FLIGHT_MAX = 200


def main():
    bootstrap, partitions, name, topics, *properties = sys.argv[1:]
    partitions, topics = int(partitions), topics.split(",")
    is_told = False

    def end(_signal, _frame):
        nonlocal is_told
        is_told = True

    signal.signal(signal.SIGTERM, end)
    own = {
        "message.timeout.ms": 80000,
        # More than one request under way could put a batch that is sent again behind the next one,
        # where the producer is not idempotent.
        "max.in.flight.requests.per.connection": 1,
        "error_cb": lambda _error: None,
    }
    producer = producing.producer(bootstrap, properties, own)
    values = producing.values(name)

    def delivered(error, message):
        if error is not None:
            sys.exit(f"not delivered: {error}")
        producing.tell(message)

    def send():
        sequence, value = next(values)
        topic = topics[sequence // partitions % len(topics)]
        producer.produce(topic, value, partition=sequence % partitions, on_delivery=delivered)

    producing.produce(producer, IN_FLIGHT_MAX, lambda: is_told, send)
    left = producer.flush(85)
    if left:
        sys.exit(f"{left} records were not answered")
    sys.stdout.flush()


main()
