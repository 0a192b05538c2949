"""In place of the suite's own test/integration/fixtures.py, which starts ZooKeeper and Kafka: the broker
is there, and so are its topics. FELIX_BOOTSTRAP is where, FELIX_TOKEN the token of tenant `dev`;
FELIX_TLS_BOOTSTRAP where one is that speaks TLS, and in FELIX_TLS_DIRECTORY is whom to trust."""

import os
from types import SimpleNamespace

from kafka import KafkaConsumer
from test.testutil import random_string


class KafkaFixture:
    """What the tests ask of a broker."""

    partitions = 4
    replicas = 1
    zookeeper = None
    # Its process, whose log they show.
    child = SimpleNamespace(dump_logs=lambda: None)

    def __init__(self, transport="PLAINTEXT", sasl_mechanism=None):
        address = os.environ["FELIX_TLS_BOOTSTRAP" if transport == "SSL" else "FELIX_BOOTSTRAP"]
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)
        self.ssl_dir = os.environ["FELIX_TLS_DIRECTORY"]
        self.transport = transport
        self.sasl_mechanism = sasl_mechanism

    @classmethod
    def instance(cls, _broker_id, transport="PLAINTEXT", sasl_mechanism=None, **_):
        return cls(transport, sasl_mechanism)

    def _enrich_client_params(self, params, **defaults):
        own = {"bootstrap_servers": f"{self.host}:{self.port}", "security_protocol": self.transport}
        if self.sasl_mechanism is not None:
            own["sasl_mechanism"] = self.sasl_mechanism
            own["sasl_plain_username"] = "dev"
            own["sasl_plain_password"] = os.environ["FELIX_TOKEN"]
        return own | defaults | params

    def start(self):
        pass

    def close(self):
        pass


class ZookeeperFixture:
    """There is none."""

    @classmethod
    def instance(cls, **_):
        raise NotImplementedError


def client_params(broker, client_id="client", **overrides):
    return broker._enrich_client_params(overrides, client_id=f"{client_id}_{random_string(4)}")


def create_topics(broker, names, num_partitions=None, replication_factor=None):
    """They are there; with another number of partitions it would be another test."""
    with KafkaConsumer(**client_params(broker, "looks")) as consumer:
        for name in names:
            found = consumer.partitions_for_topic(name) or ()
            wanted = num_partitions or broker.partitions
            assert len(found) == wanted, f"{name} has {len(found)} partitions and not {wanted}"
