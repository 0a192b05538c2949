"""Runs the suites against a broker and writes docs/foreign-suites.md: `run.py BROKER [SUITE...]`.

Each test passes, or stands in its suite's `failing.tsv` or `not-applicable.tsv` with the reason; anything
else is an error, and so is a row that is not true any more.
"""

import sys
import time
from pathlib import Path

import page
from broker import Broker
from franz_go import FranzGo
from kafka_python import KafkaPython
from librdkafka import Librdkafka

PAGE = Path(__file__).parents[2] / "docs/foreign-suites.md"
SUITES = [KafkaPython, FranzGo, Librdkafka]


def main(program, *names):
    suites = [suite() for suite in SUITES if not names or suite.name in names]
    if not suites:
        raise SystemExit(f"felix: there are {', '.join(suite.name for suite in SUITES)}")
    topics = {}
    for suite in suites:
        topics |= suite.topics()
    faults = []
    outcomes = {}
    # It does not run in this directory.
    with Broker(Path(program).resolve(), topics) as broker:
        for suite in suites:
            begin = time.monotonic()
            outcomes[suite.name] = run(suite, broker, faults)
            print(f"{suite.name}: {time.monotonic() - begin:.0f} seconds", flush=True)
            if not broker.runs():
                faults.append(f"{suite.name}: the broker has ended:\n{broker.said()}")
                break
    passed = sum(one.state == "passed" for each in outcomes.values() for one in each.values())
    failed = sum(one.state != "passed" for each in outcomes.values() for one in each.values())
    print(f"test result: {'FAILED' if faults else 'ok'}. {passed} passed; {failed} failed")
    if faults:
        raise SystemExit("felix: foreign suites:\n" + "\n".join(faults))
    if not names:
        PAGE.write_text(page.written([(suite, outcomes[suite.name]) for suite in suites]))


def run(suite, broker, faults):
    """The outcome of each test that is wanted; what is not as the lists say goes to `faults`."""
    failing = suite.table("failing.tsv")
    outcomes = {}
    for test, outcome in suite.run(broker):
        print(f"{suite.name}: {test}: {outcome.state}{outcome.why and ': ' + outcome.why}", flush=True)
        outcomes[test] = outcome
        if outcome.state == "passed":
            if test in failing:
                faults.append(f"{suite.name}: {test} passes: its row in failing.tsv has to go")
        elif test not in failing:
            print(outcome.said)
            faults.append(f"{suite.name}: {test}: {outcome.state}: {outcome.why}")
    for test in suite.wanted():
        if test not in outcomes:
            faults.append(f"{suite.name}: {test} was not run")
    for test in failing:
        if test not in outcomes:
            faults.append(f"{suite.name}: failing.tsv has {test}, which is not run")
    return outcomes


if __name__ == "__main__":
    main(*sys.argv[1:])
