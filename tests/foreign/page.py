"""docs/foreign-suites.md."""

HEAD = """# Test suites of Kafka clients

Suites that clients bring for themselves, against a Felix broker. `make test-full PARTS=foreign` runs them
and writes this page; what is changed in them, and how to run one, says
[tests/foreign/README.md](../tests/foreign/README.md).

| suite | version | passed | failed | not applicable | of |
|---|---|---|---|---|---|
"""


def written(results):
    """`results` has each suite with the outcome of each test that was run."""
    text = HEAD
    for suite, outcomes in results:
        passed = sum(outcome.state == "passed" for outcome in outcomes.values())
        failed = len(outcomes) - passed
        others = len(suite.tests) - len(outcomes)
        text += f"| {suite.name} | {suite.version} | {passed} | {failed} | {others} | {len(suite.tests)} |\n"
    text += "\nA test counts as not applicable where it is about something that Felix does not have, or not\n"
    text += "about a broker at all. It is not run.\n"
    for suite, outcomes in results:
        text += f"\n## {suite.name} {suite.version}\n"
        text += section(suite, outcomes)
    return text


def section(suite, outcomes):
    text = ""
    failing = [test for test in outcomes if outcomes[test].state != "passed"]
    if failing:
        table = suite.table("failing.tsv")
        text += "\n| failed | because |\n|---|---|\n"
        text += "".join(f"| {code(test)} | {table[test]} |\n" for test in failing)
    reasons = {}
    own = {test: suite.given(test) for test in suite.tests}
    for test, reason in suite.not_applicable().items():
        reasons.setdefault(reason, []).append(test)
    text += "\n| not applicable | tests | which |\n|---|---|---|\n"
    for reason, tests in sorted(reasons.items(), key=lambda item: -len(item[1])):
        # Those that are not about a broker are many.
        names = "" if own[tests[0]] else ", ".join(map(code, tests))
        text += f"| {reason} | {len(tests)} | {names} |\n"
    passed = [test for test in outcomes if test not in failing]
    return text + f"\nPassed: {', '.join(map(code, passed))}.\n"


def code(test):
    """The short name of a test."""
    return f"`{test.rsplit('/', 1)[-1]}`"
