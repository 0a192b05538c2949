"""Writes values to a topic with SASL/PLAIN, and prints how many were delivered, how often the broker
said to wait, and for how many seconds at most.

Usage: throttled.py BOOTSTRAP TENANT TOKEN TOPIC COUNT BYTES
"""

import sys

from confluent_kafka import Producer

TIMEOUT_S = 60


def main():
    bootstrap, tenant, token, topic, count, size = sys.argv[1:]
    delivered = []
    throttles = []

    def arrived(error, message):
        if error is not None:
            sys.exit(f"not delivered: {error.str()}")
        delivered.append(message.offset())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": tenant,
            "sasl.password": token,
            "batch.size": 20_000,
            "message.timeout.ms": TIMEOUT_S * 1000,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    for number in range(int(count)):
        producer.produce(topic, b"x" * int(size), partition=number % 2, on_delivery=arrived)
        producer.poll(0)
    while producer.flush(1):
        pass
    told = [seconds for seconds in throttles if seconds > 0]
    print(len(delivered), len(told), max(told, default=0))


main()
