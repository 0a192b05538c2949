"""kafka-python's tests (`test/`), from its source distribution.

The fixtures that start a Kafka are replaced by `kafka-python/fixtures.py`, and random names of topics
by names that are known before (`kafka-python/testutil.py`).
"""

import hashlib
import os
import re
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

from broker import Broker
from suite import Outcome, Suite

HERE = Path(__file__).parent / "kafka-python"
BUILT = HERE / "built"
SOURCE = BUILT / "source"
PYTHON = BUILT / "venv/bin/python"
SECONDS_MAX = 200
# Which Kafka the suite is to think this is.
KAFKA_VERSION = "3.8"


class KafkaPython(Suite):
    name = "kafka-python"
    home = HERE

    def __init__(self):
        self.version = (BUILT / "version.txt").read_text().strip()
        listed = pytest({}, "--collect-only", "--quiet", "test/integration")
        self.tests = [line for line in listed.stdout.splitlines() if "::" in line]
        # The others by their files alone: some ask for modules that are not in the distribution.
        others = {path for path in SOURCE.glob("test/**/test_*.py") if path.parent.name != "integration"}
        self.tests += sorted(str(path.relative_to(SOURCE)) for path in others)
        if "::" not in self.tests[0] or listed.returncode != 0:
            raise SystemExit(f"felix: pytest lists nothing:\n{listed.stdout}")

    def given(self, test):
        return None if "::" in test else "its tests use no broker, or one made of Python"

    def topics(self):
        topics = {"foreign.idempotent_test_topic": 4}
        for test in self.wanted():
            name = test.rsplit("::", 1)[1]
            word = hashlib.sha256(test.encode()).hexdigest()
            topics[f"foreign.{word[:5]}"] = 4
            # Names with other characters count as none.
            legal = re.fullmatch("[a-zA-Z0-9._-]+", name)
            topics[f"foreign.{name if legal else ''}_{word[:10]}"] = 4
            if "sasl" in test:
                shards = 2 if "produce" in test else 1
                topics["foreign." + re.sub("[^a-zA-Z0-9_]+", "_", name + word[:4])] = shards
        return topics

    def run(self, broker):
        report = BUILT / "report.xml"
        report.unlink(missing_ok=True)
        # A test that hangs fails by itself, and ends nothing else.
        options = [f"--junitxml={report}", "--timeout=40", "--timeout-method=signal"]
        with Broker(broker.program, {}, tls=True) as tls:
            settings = {
                "FELIX_BOOTSTRAP": broker.bootstrap,
                "FELIX_TOKEN": broker.token,
                "FELIX_TLS_BOOTSTRAP": tls.bootstrap,
                "FELIX_TLS_DIRECTORY": str(tls.directory),
            }
            ended = pytest(settings, *options, "-o", "log_level=INFO", *self.wanted())
        rows = xml.parse(report).iter("testcase") if report.exists() else ()
        found = {f"{row.get('classname')}::{row.get('name')}": row for row in rows}
        for test in self.wanted():
            path, name = test.split("::", 1)
            names = name.split("::")
            key = ".".join([path.removesuffix(".py").replace("/", "."), *names[:-1]]) + "::" + names[-1]
            yield test, outcome(found.get(key), ended.stdout)


def outcome(row, said):
    if row is None:
        return Outcome("failed", "has not ended", said)
    for child in row:
        if child.tag in ("failure", "error"):
            why = (child.get("message") or "").splitlines()
            return Outcome("failed", why[0] if why else child.tag, child.text or "")
        if child.tag == "skipped":
            return Outcome("skipped", child.get("message") or "")
    return Outcome("passed")


def pytest(settings, *arguments):
    command = ["timeout", "--kill-after=10", str(SECONDS_MAX), str(PYTHON.absolute()), "-m", "pytest"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments],
        cwd=SOURCE,
        env=os.environ | {"KAFKA_VERSION": KAFKA_VERSION} | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
