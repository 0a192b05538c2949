"""Reads a topic from its beginning to its end as it was at the start, with assigned partitions.

Usage: consume.py BOOTSTRAP TOPIC

Prints, for each record, partition, offset, timestamp, key length (-1: no key), key and value,
with tabs between, as the kcat of these tests does.
"""

import sys

from assigned import assigned

GRACE_S = 60


def main():
    bootstrap, topic = sys.argv[1:]
    consumer, ends = assigned(bootstrap, topic)
    waiting = {partition for partition, (low, high) in ends.items() if low < high}
    out = sys.stdout.buffer
    while waiting:
        message = consumer.poll(GRACE_S)
        if message is None:
            sys.exit(f"nothing came for {GRACE_S} s; partitions {sorted(waiting)} are not at their end")
        if message.error():
            # A consumer with a group.id, which this client insists on, may look for the group's
            # coordinator; the refusal must not keep it from reading what it was assigned.
            print(f"consumer: {message.error()}", file=sys.stderr)
            continue
        key = message.key()
        length = -1 if key is None else len(key)
        head = f"{message.partition()}\t{message.offset()}\t{message.timestamp()[1]}\t{length}\t"
        out.write(head.encode() + (key or b"") + b"\t" + message.value() + b"\n")
        if message.offset() + 1 >= ends[message.partition()][1]:
            waiting.discard(message.partition())
    out.flush()
    consumer.close()


main()
