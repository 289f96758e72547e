"""What each test needs, by its path; which tests a selection runs; which tests share a worker, and in what order.

`scripts/test --quick` runs the tiers of `QUICK` without `EXHAUSTIVE`, `scripts/test` these tiers whole and what
`STANDARD` names, `--all` every test.
"""

from fnmatch import fnmatch
from functools import cache

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
EXHAUSTIVE = (
    "tests/audit/test_busy.py::*",
    "tests/audit/test_lab.py::test_the_audit_agrees_*",
    "tests/check/fuzz/test_frames.py::test_every_*",
    "tests/cli/test_simulate.py::test_a_mutant_*",
    "tests/cli/test_simulate_drawn.py::test_a_mutant_*",
    "tests/console/test_limits.py::test_no_step_*",
    "tests/console/test_odd_requests.py::test_odd_values_*",
    "tests/controller/test_chaos.py::test_whatever_happens_*",
    "tests/controller/test_deletion.py::test_a_controller_that_dies_while_it_removes_*",
    "tests/controller/test_large_commands.py::*",
    "tests/controller/test_slices.py::*",
    "tests/coordinator/group/consumer/test_consumer_random.py::*",
    "tests/coordinator/group/consumer/test_mixed_random.py::*",
    "tests/coordinator/group/test_group_offsets.py::test_many_expired_*",
    "tests/lab/test_stories.py::test_the_same_story_*_whatever_the_hash_seed",
    "tests/log/test_compaction.py::test_a_crash_at_any_operation_*",
    "tests/log/test_compaction.py::test_a_log_that_is_deleted_at_any_step_*",
    "tests/log/test_compaction.py::test_a_truncation_while_*",
    "tests/log/test_crashes.py::test_truncations_*",
    "tests/log/test_rotten_files.py::test_every_*",
    "tests/node/quorum/test_any_request.py::test_no_request_to_a_controller_*",
    "tests/node/quorum/test_office.py::test_a_failover_and_a_full_start_*",
    "tests/node/quorum/test_rotten_metadata.py::*",
    "tests/node/test_any_request.py::test_no_request_ends_*",
    "tests/node/test_large_answers.py::*",
    "tests/node/test_relocation.py::test_a_crash_at_any_operation_*",
    "tests/node/test_rotten_folder.py::*",
    "tests/quorum/test_log_after_snapshot.py::test_a_crash_anywhere_*",
    "tests/security/test_cve_classes.py::test_the_length_of_an_array*",
    "tests/shell/test_rotten_metadata.py::test_every_*",
    "tests/sim/clients/test_clients.py::test_copiers_copy_exactly_once_*",
    "tests/sim/clients/test_clients.py::test_transactions_of_other_libraries",
    "tests/sim/mutants/drawn/test_drawing.py::*",
    "tests/sim/nemesis/test_kinds.py::test_every_kind_is_the_same_each_time_*",
    "tests/sim/nemesis/test_later_kinds.py::*",
    "tests/sim/test_alarms.py::test_alarms_are_what_*",
    "tests/store/test_rotten_store.py::test_every_*",
    "tests/test_tidy.py::*",
    "tests/wire/test_messages_kio.py::*",
)
"""Tests of `QUICK` tiers that try every step, seed, kind, version, mutant or library: too many for `--quick`, the others run them."""

FIRST = ("spark", "java", "process", "soak", "cluster", "unit")
"""In which order the tiers begin: seeds fill what is left."""

PLACES = (
    ("tests/simulation/*", "soak"),
    ("tests/spark/values/*", "unit"),
    ("tests/spark/test_iceberg_table.py", "unit"),
    ("tests/spark/test_access.py", "cluster"),
    ("tests/spark/test_frames.py", "cluster"),
    ("tests/spark/test_record_columns.py", "cluster"),
    ("tests/spark/test_offsets.py", "cluster"),
    ("tests/spark/test_options.py", "cluster"),
    ("tests/spark/test_pipelines_tables.py", "cluster"),
    ("tests/spark/test_reader.py", "cluster"),
    ("tests/spark/test_session.py", "cluster"),
    ("tests/spark/test_sink_encoding.py", "cluster"),
    ("tests/spark/test_spreading.py", "cluster"),
    ("tests/spark/test_read_errors.py", "cluster"),
    ("tests/spark/test_sink_brokers.py", "process"),
    ("tests/spark/test_sink_crashes.py", "java"),
    ("tests/spark/test_sink_older_transactions.py", "java"),
    ("tests/spark/*", "spark"),
    ("*_java.py", "java"),
    ("*_as_kafka.py", "java"),
    ("tests/log/test_kafka_tools.py", "java"),
    ("tests/compatibility/test_clients.py", "process"),
    ("tests/compatibility/test_dead_cleaner.py", "process"),
    ("tests/compatibility/test_delivery.py", "process"),
    ("tests/compatibility/test_doc_blocks.py", "process"),
    ("tests/compatibility/test_documents.py", "process"),
    ("tests/compatibility/test_fuzz.py", "process"),
    ("tests/compatibility/test_leader_kills.py", "process"),
    ("tests/compatibility/test_operations.py", "process"),
    ("tests/compatibility/test_rot.py", "process"),
    ("tests/compatibility/test_slow_follower.py", "process"),
    ("tests/compatibility/test_transactions_under_load.py", "process"),
    ("tests/compatibility/*", "java"),
    ("*_process.py", "process"),
    ("tests/fuzz/*", "process"),
    ("tests/config/test_changed_while_running.py", "cluster"),
    ("tests/api/test_refusals.py", "cluster"),
    ("tests/api/test_traps.py", "cluster"),
    ("tests/console/test_safety.py", "unit"),
    ("tests/console/test_story.py", "unit"),
    ("tests/console/test_hostile.py", "unit"),
    ("tests/console/test_limits.py", "unit"),
    ("tests/console/test_many.py", "process"),
    ("tests/console/*", "cluster"),
    ("tests/testing/*", "cluster"),
    ("tests/cli/*", "cluster"),
    ("tests/shell/*", "cluster"),
    ("tests/check/fuzz/*", "unit"),
    ("tests/check/history/*", "unit"),
    ("tests/check/*", "cluster"),
    ("tests/audit/test_busy.py", "cluster"),
    ("tests/audit/test_command.py", "cluster"),
    ("tests/audit/test_unclean.py", "cluster"),
    ("tests/*", "unit"),
)
"""(pattern of paths, tier): the first that fits counts."""

STANDARD = (
    "tests/compatibility/test_clients.py::*",
    "tests/compatibility/test_leader_kills.py::*",
    "tests/fuzz/*",
    "tests/*_process.py::*",
    "tests/cli/*_java.py::*",
    "tests/log/test_kafka_tools.py::*",
    "tests/quorum/*_java.py::*",
    "tests/shell/*_java.py::*",
    "tests/store/*_java.py::*",
    "tests/compatibility/test_kafka_tools.py::*",
    "tests/compatibility/test_same_on_kafka.py::*",
    "tests/compatibility/test_tool_server.py::*",
    "tests/compatibility/test_tool_table.py::*",
    "tests/compatibility/test_transactions.py::*",
    "tests/spark/test_batch.py::*",
    "tests/spark/test_stream.py::*",
    "tests/spark/test_sink.py::*",
    "tests/spark/test_connector_batches.py::*",
    "tests/spark/test_pipelines_mirror.py::*",
    "tests/spark/test_pipelines_kills_mirror.py::*",
    "tests/spark/test_demo.py::*",
    "tests/simulation/test_explain.py::*",
    "tests/simulation/test_seeds.py::test_a_seed_*",
    "tests/simulation/test_seeds.py::test_drawn_*",
    "tests/simulation/test_seeds.py::test_the_same_*",
    "tests/simulation/test_mutants.py::*",
    "tests/simulation/test_quorum.py::*",
    "tests/simulation/test_generations.py::*",
    "tests/simulation/test_last_replica.py::*",
    "tests/simulation/test_stopped_followers.py::*",
)
"""Patterns of the tests beyond `QUICK` that the standard selection runs, too: each dearer tier is represented."""

ALONE_ON_SPARK = (
    "test_demo",
    "test_other_sessions",
    "test_pipelines_declarative",
    "test_pipelines_notebook",
    "test_sink_kills",
    "test_standalone",
)
"""They start Spark in processes of their own."""

GROUPS = (
    ("tests/spark/test_sink_crashes.py", "sink"),
    ("tests/spark/test_sink_older_transactions.py", "sink"),
    *((f"tests/spark/{name}.py", name) for name in ALONE_ON_SPARK),
    ("tests/spark/test_pipelines_kills_cdc.py", "spark, killed"),
    ("tests/spark/test_pipelines_kills_flights.py", "spark, killed"),
    ("tests/spark/test_pipelines_kills_la*.py", "spark, killed"),
    ("tests/spark/*", "spark"),
    ("tests/cli/explain/test_explain_java.py", "kafka"),
    ("tests/cli/explain/test_store_java.py", "zookeeper"),
    ("tests/compatibility/test_client_features.py", "kafka"),
    ("tests/compatibility/test_history.py", "kafka"),
    ("tests/console/test_pages_java.py", "kafka"),
    ("tests/compatibility/test_same_on_kafka.py", "kafka"),
    ("tests/shell/test_client_security_java.py", "kafka"),
    ("tests/shell/test_delegation_tokens_java.py", "kafka"),
    ("tests/cli/test_metadata_java.py", "zookeeper"),
    ("tests/cli/test_up_java.py", "zookeeper"),
    ("tests/compatibility/test_documents.py", "zookeeper"),
    ("tests/compatibility/test_moves_on_zookeeper.py", "zookeeper"),
    ("tests/compatibility/test_rolling_upgrade.py", "zookeeper"),
    ("tests/compatibility/test_tool_table.py", "zookeeper"),
    ("tests/compatibility/test_zookeeper.py", "zookeeper"),
    ("tests/store/*_java.py", "zookeeper"),
    ("tests/simulation/test_mutants.py", "mutants"),  # many are found by the same seed, which runs unbroken once
)
"""(pattern of paths, group): files that share something costly. A group runs on one worker."""

LONGEST = ("spark", "zookeeper", "spark, killed", "tests/fuzz/test_large_requests.py", "kafka")
"""Groups that take minutes on one worker begin before all others, so that no worker is left alone with one at the end."""

ALONE = ("tests/simulation/*",)
"""Files whose tests share nothing: each of them may run on any worker, unless `GROUPS` names the file. Elsewhere the tests
of a file are a group."""

NEEDS = {
    "kafka_libs": ("java", ()),
    "secured_kafka": ("java", ("kafka", "spark")),
    "zookeeper": ("java", ("zookeeper",)),
    "spark": ("spark", ("spark", "spark, killed")),
}
"""Fixtures, and the least tier and the groups of tests that use one, themselves or through others; no group: any."""


@cache
def tier_of(path: str) -> str:
    """The tier of a test file; `path` is relative to the root of the checkout."""
    return next(tier for pattern, tier in PLACES if fnmatch(path, pattern))


def is_selected(selection: str, path: str, name: str) -> bool:
    """Whether the selection (`quick`, `standard` or `all`) runs this test; of a name, what is before "[" counts."""
    return _is_selected(selection, path, name.partition("[")[0])


@cache
def _is_selected(selection: str, path: str, function: str) -> bool:
    if selection == "all":
        return True
    test = f"{path}::{function}"
    if tier_of(path) in QUICK:
        return selection == "standard" or not any(fnmatch(test, pattern) for pattern in EXHAUSTIVE)
    return selection == "standard" and any(fnmatch(test, pattern) for pattern in STANDARD)


def may_be_selected(selection: str, path: str) -> bool:
    """Whether the selection runs some test of the file."""
    if selection == "all":
        return True
    if tier_of(path) in QUICK:
        return selection == "standard" or f"{path}::*" not in EXHAUSTIVE
    return selection == "standard" and any(fnmatch(path, pattern.partition("::")[0]) for pattern in STANDARD)


def group_of(name: str) -> str:
    """The group of tests that runs on one worker with the test of this node id; itself if it shares nothing."""
    return _group_of_file(name.partition("::")[0]) or name


@cache
def _group_of_file(path: str) -> str | None:
    """The group of the tests of a file; None if each of them may run on any worker."""
    alone = any(fnmatch(path, pattern) for pattern in ALONE)
    return next((group for pattern, group in GROUPS if fnmatch(path, pattern)), None if alone else path)


def misplaced(path: str, fixtures: "set[str]") -> str | None:
    """What is wrong with the place of a test that uses these fixtures; None where nothing is."""
    order = list(TIERS)
    for fixture in fixtures & NEEDS.keys():
        tier, groups = NEEDS[fixture]
        if order.index(tier_of(path)) < order.index(tier):
            return f"{path} uses {fixture}: tests/tiers.py must place it in the tier {tier}"
        if groups and group_of(path) not in groups:
            return f"{path} uses {fixture}: tests/tiers.py must put it into the group {' or '.join(groups)}"
    return None


@cache
def order_of(path: str) -> tuple[int, int]:
    """What takes longest begins first: by `LONGEST`, then by `FIRST`."""
    group = _group_of_file(path)
    return LONGEST.index(group) if group in LONGEST else len(LONGEST), FIRST.index(tier_of(path))
