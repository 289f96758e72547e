"""What each test needs, by its path; which tests a selection runs; which tests share a worker, and in what order.

`scripts/test --quick` runs the tiers of `QUICK`, `scripts/test` these and what `STANDARD` names, `--all` every test.
"""

from fnmatch import fnmatch

TIERS = {
    "unit": "needs nothing but this process: no broker that listens, no other process but small scripts",
    "cluster": "needs brokers in this process",
    "process": "needs other processes: brokers, Chromium, network namespaces",
    "java": "needs a JVM: Kafka's tools, a real Kafka, ZooKeeper",
    "spark": "needs a Spark session",
    "soak": "is long by design: simulated clusters under seeds, mutants, kills by the dozen",
}
"""From the cheapest to the dearest. A test belongs to the dearest tier that it needs."""

QUICK = ("unit", "cluster")

PLACES = (
    ("tests/simulation/*", "soak"),
    ("tests/spark/*", "spark"),
    ("*_java.py", "java"),
    ("*_as_kafka.py", "java"),
    ("tests/log/test_kafka_tools.py", "java"),
    ("tests/compatibility/test_clients.py", "process"),
    ("tests/compatibility/test_dead_cleaner.py", "process"),
    ("tests/compatibility/test_delivery.py", "process"),
    ("tests/compatibility/test_documents.py", "process"),
    ("tests/compatibility/test_leader_kills.py", "process"),
    ("tests/compatibility/test_rot.py", "process"),
    ("tests/compatibility/test_slow_follower.py", "process"),
    ("tests/compatibility/*", "java"),
    ("*_process.py", "process"),
    ("tests/fuzz/*", "process"),
    ("tests/config/test_changed_while_running.py", "cluster"),
    ("tests/api/test_refusals.py", "cluster"),
    ("tests/api/test_traps.py", "cluster"),
    ("tests/testing/*", "cluster"),
    ("tests/cli/*", "cluster"),
    ("tests/shell/*", "cluster"),
    ("tests/audit/test_busy.py", "cluster"),
    ("tests/audit/test_command.py", "cluster"),
    ("tests/audit/test_unclean.py", "cluster"),
    ("tests/*", "unit"),
)
"""(pattern of paths, tier): the first that fits counts."""

STANDARD = ()
"""Patterns of the tests beyond `QUICK` that the standard selection runs, too: each dearer tier is represented."""

SHARED = {"spark": "spark", "zookeeper": "zookeeper", "secured_kafka": "kafka"}
"""Fixtures that start something costly, and the group of tests that share it. A group runs on one worker."""

ALONE = ("tests/simulation/*",)
"""Files whose tests share nothing: each of them may run on any worker. Elsewhere the tests of a file are a group."""

LEAST = {"kafka_libs": "java", "zookeeper": "java", "spark": "spark"}
"""Fixtures, and the least tier of a test that uses one, itself or through others."""


def tier_of(path: str) -> str:
    """The tier of a test file; `path` is relative to the root of the checkout."""
    return next(tier for pattern, tier in PLACES if fnmatch(path, pattern))


def is_selected(selection: str, path: str, name: str) -> bool:
    """Whether the selection (`quick`, `standard` or `all`) runs this test; of a name, what is before "[" counts."""
    if selection == "all" or tier_of(path) in QUICK:
        return True
    test = f"{path}::{name.partition('[')[0]}"
    return selection == "standard" and any(fnmatch(test, pattern) for pattern in STANDARD)


def may_be_selected(selection: str, path: str) -> bool:
    """Whether the selection runs some test of the file."""
    if selection == "all" or tier_of(path) in QUICK:
        return True
    return selection == "standard" and any(fnmatch(path, pattern.partition("::")[0]) for pattern in STANDARD)


def group_of(path: str, fixtures: "set[str]") -> str | None:
    """The group that runs on one worker; None for a test that shares nothing."""
    shared = next((group for fixture, group in SHARED.items() if fixture in fixtures), None)
    if shared or any(fnmatch(path, pattern) for pattern in ALONE):
        return shared
    return path.removeprefix("tests/").removesuffix(".py")


def misplaced(path: str, fixtures: "set[str]") -> str | None:
    """What is wrong with the tier of a test that uses these fixtures; None where nothing is."""
    order = list(TIERS)
    for fixture in fixtures & LEAST.keys():
        if order.index(tier_of(path)) < order.index(LEAST[fixture]):
            return f"{path} uses {fixture}: tests/tiers.py must place it in the tier {LEAST[fixture]}"
    return None


def order_of(path: str) -> int:
    """Dear tiers begin first, so that no worker is left alone with them at the end."""
    return -list(TIERS).index(tier_of(path))
