"""Produces with acks=all until the broker goes away, and prints what was acknowledged.

Usage: load.py BOOTSTRAP TOPIC PARTITIONS NAME [NAME=VALUE ...]

Each record is sent once and never again, so one that was written but not acknowledged cannot
come twice. Values and lines are those of producing.py. Exits with 0 once a record has failed and
all are answered.
"""

import sys

import producing

IN_FLIGHT_MAX = 2000


def main():
    bootstrap, topic, partitions, name, *properties = sys.argv[1:]
    partitions = int(partitions)
    failed = False

    def lost(_error):
        # Nothing may be under way when the broker goes, and then no record fails for long.
        nonlocal failed
        failed = True

    own = {"message.send.max.retries": 0, "message.timeout.ms": 20000, "error_cb": lost}
    producer = producing.producer(bootstrap, properties, own)
    values = producing.values(name)

    def delivered(error, message):
        nonlocal failed
        if error is not None:
            failed = True
        else:
            producing.tell(message)

    def send():
        sequence, value = next(values)
        producer.produce(topic, value, partition=sequence % partitions, on_delivery=delivered)

    producing.produce(producer, IN_FLIGHT_MAX, lambda: failed, send)
    # What was not sent is not to be sent to the broker that comes next.
    producer.purge(in_queue=True, in_flight=True)
    producer.flush(30)
    sys.stdout.flush()


main()
