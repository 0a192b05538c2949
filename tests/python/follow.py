"""Follows one partition from its end, over restarts of the broker.

Usage: follow.py BOOTSTRAP TOPIC PARTITION COUNT

Prints "at the end" once it is there, then the value of each record that comes, and ends after
COUNT of them.
"""

import sys

from confluent_kafka import OFFSET_END, Consumer, KafkaError, TopicPartition


def main():
    bootstrap, topic, partition, count = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused, but this client insists on one",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer.assign([TopicPartition(topic, int(partition), OFFSET_END)])
    left = int(count)
    announced = False
    while left:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            print(message.value().decode(), flush=True)
            left -= 1
        elif message.error().code() == KafkaError._PARTITION_EOF and not announced:
            print("at the end", flush=True)
            announced = True
    consumer.close()


main()
