"""What is the same of each suite."""

import fnmatch
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Outcome:
    """`passed`, `failed` or `skipped` (by itself, which counts as failed), why, and all that it said."""

    state: str
    why: str = ""
    said: str = ""


class Suite:
    """A suite has a `name`, a `version`, its `home` with its lists, and the names of its `tests`."""

    name: str
    version: str
    home: Path
    tests: list[str]

    def topics(self):
        """The topics that it is given: the number of partitions of each, by name."""
        raise NotImplementedError

    def run(self, broker):
        """Each test that is wanted, with its `Outcome`."""
        raise NotImplementedError

    def given(self, test):
        """Why a test is not applicable by what the suite says of it; `None` where it may be."""
        return None

    def table(self, file):
        """The rows of one of its lists: a test, or a pattern of them, and what is said of it."""
        path = self.home / file
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [line.split("\t", 1) for line in lines if line and not line.startswith("#")]
        for row in rows:
            if len(row) != 2 or not row[1].strip():
                raise SystemExit(f"felix: {path}: {row[0]} has no tab and reason")
        table = dict(rows)
        if len(table) != len(rows):
            raise SystemExit(f"felix: {path} names something twice")
        return table

    def not_applicable(self):
        """Why, for each test that is not run."""
        why = {}
        for test in self.tests:
            reason = self.given(test)
            if reason is not None:
                why[test] = reason
        for pattern, reason in self.table("not-applicable.tsv").items():
            found = [test for test in fnmatch.filter(self.tests, pattern) if test not in why]
            if not found:
                raise SystemExit(f"felix: {self.home}/not-applicable.tsv: there is no {pattern}")
            why |= dict.fromkeys(found, reason)
        return why

    def wanted(self):
        """The tests that are run."""
        why = self.not_applicable()
        return [test for test in self.tests if test not in why]
