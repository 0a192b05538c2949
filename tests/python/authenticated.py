"""Writes one value to partition 0 of a topic with SASL/PLAIN, and prints all that is there.

Usage: authenticated.py BOOTSTRAP TENANT TOKEN TOPIC VALUE

Of what goes wrong it prints the first sentence, and ends with 1.
"""

import sys

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

TIMEOUT_S = 20


def main():
    bootstrap, tenant, token, topic, value = sys.argv[1:]

    refusals = []

    def failed(error):
        if error.code() == KafkaError._AUTHENTICATION:
            refusals.append(error.str())

    shared = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": tenant,
        "sasl.password": token,
        "error_cb": failed,
    }
    offsets = []

    def delivered(error, message):
        if error is not None:
            refusals.append(error.str())
        else:
            offsets.append(message.offset())

    producer = Producer(shared | {"message.timeout.ms": TIMEOUT_S * 1000})
    producer.produce(topic, value, partition=0, on_delivery=delivered)
    while not offsets and not refusals:
        producer.poll(1)
    if refusals:
        print(refusals[0])
        producer.purge()
        sys.exit(1)
    own = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer(shared | own)
    consumer.assign([TopicPartition(topic, 0, 0)])
    while True:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            sys.exit("nothing was read")
        if message.error() is not None:
            # This client insists on a group, and reads on although it is told that there are none.
            if message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue
            sys.exit(f"nothing was read: {message.error()}")
        print(message.value().decode())
        if message.offset() >= offsets[0]:
            break
    consumer.close()


main()
