"""A consumer that assigns all partitions of a topic to itself."""

from confluent_kafka import Consumer, TopicPartition

TIMEOUT_S = 30


def assigned(bootstrap, topic):
    """The consumer, at the beginning of each partition, and {partition: (low, high)}."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused, but this client insists on one",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
    ends = {
        place.partition: consumer.get_watermark_offsets(place, timeout=TIMEOUT_S, cached=False)
        for place in places
    }
    consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in ends.items()])
    return consumer, ends
