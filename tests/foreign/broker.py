"""A Felix broker with the topics that the suites are given, for as long as they run."""

import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

CORES = 2
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


class Broker:
    """Use it in a `with`. `topics` has the number of partitions of each topic, by its name. Where it
    speaks TLS, `ca-cert` in its `directory` is what to trust."""

    def __init__(self, program, topics, tls=False):
        self.program = program
        self.topics = topics
        self.tls = tls

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory(prefix="felix-foreign-")
        self.directory = home = Path(self.home.name)
        (home / "streams.toml").write_text("".join(map(stream, self.topics, self.topics.values())))
        made = subprocess.run(
            [self.program, "--new-token", "dev/suites"], capture_output=True, text=True, check=True
        )
        (home / "tokens.toml").write_text(made.stdout)
        self.token = re.search("felix_[0-9a-f]{64}", made.stderr)[0]
        port = free_ports(2 + CORES)
        self.bootstrap = f"127.0.0.1:{port}"
        http = f"127.0.0.1:{port + 1 + CORES}"
        # Nothing in the developer's environment counts.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FELIX_")}
        environment |= {
            "FELIX_CORES": ",".join(map(str, sorted(os.sched_getaffinity(0))[:CORES])),
            "FELIX_KAFKA_LISTEN": self.bootstrap,
            "FELIX_KAFKA_CORE_PORTS": "true",
            "FELIX_KAFKA_TLS": "true" if self.tls else "false",
            "FELIX_TLS_CERT_EXPORT": str(home / "ca-cert") if self.tls else "",
            "FELIX_KAFKA_ANONYMOUS_TENANT": "dev",
            "FELIX_KAFKA_TOKEN_FILE": str(home / "tokens.toml"),
            "FELIX_KAFKA_DEFAULT_NAMESPACE": "foreign",
            "FELIX_BROKER_METRICS_BIND": http,
            "FELIX_DURABLE_STORAGE_DIR": str(home / "data"),
            "FELIX_CATALOG_FILE": str(home / "streams.toml"),
        }
        self.log = open(home / "log", "w+")
        self.process = subprocess.Popen(
            [self.program], cwd=home, env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )
        try:
            self.wait_until_ready(f"http://{http}/ready")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_until_ready(self, address):
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                urllib.request.urlopen(address, timeout=5).close()
                return
            except OSError as error:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise RuntimeError(f"the broker is not ready: {error}\n{self.said()}") from error
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.home.cleanup()

    def runs(self):
        return self.process.poll() is None

    def said(self):
        """The end of its log."""
        self.log.flush()
        self.log.seek(0)
        return "".join(self.log.readlines()[-40:])


def stream(topic, shards):
    """Timestamps are the producers', as they are in Kafka where nothing is said."""
    namespace, name = topic.split(".", 1)
    return (
        f'[[stream]]\ntenant = "dev"\nnamespace = "{namespace}"\nname = "{name}"\nshards = {shards}\n'
        f'durability = "periodic"\ntimestamps = "create"\n'
    )


def free_ports(count):
    """The first of so many ports in a row that nobody has, below those that the kernel gives out."""
    for first in range(20000 + os.getpid() % 5000, 32000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no ports are free")
