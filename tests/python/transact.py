"""Writes to partition 0 of a topic in transactions: one that is committed, one that is aborted.

Usage: transact.py BOOTSTRAP TOPIC
"""

import sys

from confluent_kafka import Producer


def main():
    bootstrap, topic = sys.argv[1:]
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "felix-tests"})
    producer.init_transactions(60)
    for value, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{value} {number}", partition=0)
        if producer.flush(60):
            sys.exit("records were not answered")
        end(60)


main()
