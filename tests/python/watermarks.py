"""Prints partition, lowest and end offset of each partition of a topic, as the broker says.

Usage: watermarks.py BOOTSTRAP TOPIC
"""

import sys

from assigned import assigned


def main():
    bootstrap, topic = sys.argv[1:]
    consumer, ends = assigned(bootstrap, topic)
    for partition, (low, high) in sorted(ends.items()):
        print(partition, low, high)
    consumer.close()


main()
