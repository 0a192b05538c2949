"""Makes a topic with one partition at a broker that can, such as Apache Kafka.

Usage: create.py BOOTSTRAP TOPIC [NAME=VALUE ...]

Further arguments are properties of the topic.
"""

import sys

from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 30


def main():
    bootstrap, topic, *properties = sys.argv[1:]
    config = dict(property.split("=", 1) for property in properties)
    client = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
    for made in client.create_topics([topic], operation_timeout=TIMEOUT_S).values():
        made.result(TIMEOUT_S)


main()
