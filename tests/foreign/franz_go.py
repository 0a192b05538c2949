"""franz-go's tests of its client (`pkg/kgo`), from the module.

What they make topics with is replaced by `franz-go/topics_test.go`.
"""

import os
import re
import subprocess
from pathlib import Path

from suite import Outcome, Suite

HERE = Path(__file__).parent / "franz-go"
BUILT = HERE / "built"
KGO = BUILT / "source/pkg/kgo"
SECONDS_MAX = 240
PREFIX = "foreign.franz-go-"
# How many topics there are of each number of partitions.
POOL = {1: 40, 2: 8, 3: 8, 7: 4, 11: 4, 31: 4}
# What every test that talks to a broker calls, itself or by a helper.
BROKER = re.compile(
    r"newTestClient|testClientOpts|tmpTopic|tmpNamedTopic|getSeedBrokers|adm\(\)|KGO_|Seeds\b"
)


class FranzGo(Suite):
    name = "franz-go"
    home = HERE

    def __init__(self):
        self.version = (BUILT / "version.txt").read_text().strip()
        self.bodies = {}
        for path in sorted(KGO.glob("*_test.go")):
            for body in re.split(r"^(?=func )", path.read_text(), flags=re.MULTILINE):
                found = re.match(r"func (Test\w+)\(", body)
                if found:
                    self.bodies[found[1]] = body
        self.tests = list(self.bodies)

    def given(self, test):
        if BROKER.search(self.bodies[test]):
            return None
        return "it uses no broker, or one that it plays itself"

    def topics(self):
        return {
            f"{PREFIX}{partitions}-{index}": partitions
            for partitions, count in POOL.items()
            for index in range(count)
        }

    def run(self, broker):
        wanted = self.wanted()
        names = "|".join(wanted)
        options = ["-test.v", "-test.parallel=4", f"-test.timeout={SECONDS_MAX}s", f"-test.run=^({names})$"]
        settings = {"KGO_SEEDS": broker.bootstrap, "KGO_LOG_LEVEL": "none", "FELIX_TOPICS": PREFIX}
        ended = subprocess.run(
            [BUILT / "kgo.test", *options],
            cwd=KGO,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for test in wanted:
            yield test, outcome(test, ended.stdout)


def outcome(test, said):
    rows = re.findall(rf"^\s*--- (PASS|FAIL|SKIP): {test}(?:/\S*)? \(", said, re.MULTILINE)
    own = re.search(rf"^--- (PASS|FAIL|SKIP): {test} .*\n((?:\s+.*\n)*)", said, re.MULTILINE)
    if own is None:
        return Outcome("failed", "has not ended", said)
    # What it says stands before the row, or behind it.
    before = said[: own.start()].rsplit("\n=== ", 1)[-1].splitlines()[1:]
    lines = [line.strip() for line in [*own[2].splitlines(), *before] if "_test.go:" in line]
    why = lines[0] if lines else ""
    # A part that is left out is not passed.
    for state, name in (("FAIL", "failed"), ("SKIP", "skipped")):
        if state in rows:
            return Outcome(name, why, "\n".join(lines) + "\n" + said[-3000:])
    return Outcome("passed")
