"""The tests of librdkafka 1.8.2 (`librdkafka/tests`), from the source that a crate carries.

Each is a process of its own. What they make topics with is replaced by `librdkafka/topics.c`.
"""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import Outcome, Suite

HERE = Path(__file__).parent / "librdkafka"
BUILT = HERE / "built/source"
SECONDS_MAX = 100
# Most of the time they wait.
AT_ONCE = 4
TOPICS_EACH = 6
# What Kafka gives a topic that makes itself in this suite's clusters.
PARTITIONS = 4


class Librdkafka(Suite):
    name = "librdkafka"
    home = HERE

    def __init__(self):
        text = (BUILT / "tests" / "test.c").read_text()
        rows = re.findall(r"^\s+_TEST\((\w+),\s*([^,)]+)", text, re.MULTILINE)
        self.local = {name for name, flags in rows if "TEST_F_LOCAL" in flags}
        self.tests = [name for name, _ in rows]
        header = (BUILT / "src" / "rdkafka.h").read_text()
        # 0xMMmmrrff
        number = bytes.fromhex(re.search(r"RD_KAFKA_VERSION +0x(\w{8})", header)[1])
        self.version = ".".join(map(str, number[:3]))

    def topics(self):
        partitions = self.table("partitions.tsv")
        return {
            f"{prefix(test)}{index}": int(partitions.get(test, PARTITIONS))
            for test in self.wanted()
            for index in range(TOPICS_EACH)
        }

    def given(self, test):
        if test in self.local:
            return "it uses no broker, or one that librdkafka brings: nothing of Felix is in it"
        return None

    def run(self, broker):
        config = BUILT / "felix.conf"
        # What docs/kafka-compatibility.md has consumers set; else closing one waits for a group.
        config.write_text(f"metadata.broker.list={broker.bootstrap}\nenable.auto.commit=false\n")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            wanted = self.wanted()
            yield from zip(wanted, pool.map(lambda test: one(test, config), wanted))


def prefix(test):
    return f"foreign.librdkafka-{test}-"


def one(test, config):
    environment = os.environ | {
        "LD_LIBRARY_PATH": f"{BUILT / 'src'}:{BUILT / 'src-cpp'}",
        "TESTS": test[:4],
        "FELIX_TOPICS": prefix(test),
        "RDKAFKA_TEST_CONF": str(config),
        "TEST_KAFKA_VERSION": "2.8.0",
    }
    # Without local ones (-L), one at a time, at a pace for small machines (-Q).
    command = ["./test-runner", "-p1", "-L", "-Q", test]
    try:
        ended = subprocess.run(
            command,
            cwd=BUILT / "tests",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        return Outcome("failed", f"has not ended after {SECONDS_MAX} seconds", said)
    said = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout.decode(errors="replace"))
    # | test | PASSED | 0.123s | why |
    row = re.search(rf"^\|\s*{test}\s*\|\s*(\w+)\s*\|[^|]*\|(.*)$", said, re.MULTILINE)
    if row is not None and row[1] in ("PASSED", "SKIPPED"):
        return Outcome(row[1].lower(), row[2].strip(" |") if row[1] == "SKIPPED" else "", said)
    # Where it fails, its threads may keep it from a summary.
    fault = re.search(r'^### Test "(?!<MAIN>).*\n(.*)$', said, re.MULTILINE)
    return Outcome("failed", fault[1] if fault else f"ended with {ended.returncode}", said)
