"""Lists all topics with their partition counts, as a consumer and as a producer.

Usage: topics.py BOOTSTRAP
"""

import sys

from confluent_kafka import Consumer, Producer

TIMEOUT_S = 30


def main():
    settings = {"bootstrap.servers": sys.argv[1]}
    group = {"group.id": "unused, but this client insists on one"}
    for client in (Consumer(settings | group), Producer(settings)):
        for name, topic in sorted(client.list_topics(timeout=TIMEOUT_S).topics.items()):
            print(name, len(topic.partitions))


main()
