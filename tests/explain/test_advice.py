"""Every command that a rule advises can be parsed by the command line, and docs/explain.md lists every finding."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.explain.test_rules import MEMBER, NAME, evidence, place
from tidelog.cli.main import tidelog
from tidelog.client.group.described import GroupState
from tidelog.errors import ErrorCode
from tidelog.explain.core import broker_rules
from tidelog.explain.core.commands import command_line, sentence
from tidelog.explain.core.diagnosis import diagnose
from tidelog.explain.core.evidence import (
    GroupEvidence,
    LogDir,
    OngoingReassignment,
    OpenTransaction,
    VoterLag,
)
from tidelog.explain.core.finding import Subject
from tidelog.wire.messages.transactions.transaction_admin import ProducerState

ROOT = Path(__file__).parents[2]
CORE = ROOT / "src/tidelog/explain/core"


def troubled():
    """Clusters that together have every fault for which a command is advised."""
    yield evidence(leader=-1, isr=(2,), dead=(2,)), Subject("partition", "t-0")
    yield evidence(isr=(0,), needed=2, dead=(1, 2)), Subject("cluster")
    yield evidence(leader=1), Subject("broker", "0")
    yield evidence(leader=1), Subject("partition", "t-0")
    yield evidence(), Subject("topic", "unknown")
    yield (
        evidence(dead=(2,), deleting={"t": [2]}, moves={NAME: OngoingReassignment([0, 1], [1], [])}),
        Subject("cluster"),
    )
    given = evidence(throttled={"t": {"leader.replication.throttled.replicas": "*"}})
    given.brokers[1].options = dict.fromkeys(broker_rules.RATES, "1")
    given.brokers[0].facts = {"full": ["/a"], "loading": {"__consumer_offsets-3": {"for_ms": 9_000, "reason": "rot"}}}
    given.brokers[0].folders = [LogDir("/a", None, 100, 0, is_full=True)]
    yield given, Subject("cluster")
    given.partitions[NAME].folders[0] = "/a"
    yield given, Subject("partition", "t-0")
    given = evidence()
    given.partitions[NAME].leader_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    given.partitions[NAME].transactions = [
        OpenTransaction(NAME, ProducerState(9, current_txn_start_offset=12), 16 * 60_000, None)
    ]
    given.groups = {"g": GroupEvidence(GroupState("g", "Stable", "range", [MEMBER]), 0, [place(start=7)])}
    yield given, Subject("cluster")
    yield given, Subject("group", "g")
    yield evidence(voter_lags=[VoterLag(2, 7, 9_000)]), Subject("cluster")
    given = evidence(moves={NAME: OngoingReassignment([0, 1, 2], [2], [1])})
    yield given, Subject("partition", "t-0")
    given = evidence()
    given.groups = {"g": GroupEvidence(GroupState("g", "Stable", "range", [MEMBER]), 0, [place(stable=5)])}
    yield given, Subject("group", "g")


def advised():
    return sorted({each.command for given, subject in troubled() for finding in diagnose(given, subject)
                   for each in finding.helps if each.command})  # fmt: skip


def parse(words, command, info_name="tidelog"):
    """Parse as click does before it calls anything."""
    context = command.make_context(info_name, list(words), resilient_parsing=False)
    if isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        parse(rest, found, name)


@pytest.mark.parametrize("command", advised())
def test_an_advised_command_parses(command):
    words = shlex.split(command_line("127.0.0.1:9092")(command))
    assert words[0] == "tidelog"
    parse(words[1:], tidelog)


def test_a_command_that_does_not_exist_does_not_parse():
    with pytest.raises(click.UsageError):
        parse(["topics", "--no-such-option"], tidelog)


def test_every_command_in_the_rules_is_among_them():
    """By the first word of each command in the sources, so that a new one must be added above."""
    written = set()
    for file in CORE.glob("*_rules.py"):
        written |= set(re.findall(r'"((?:configs|topics|groups|transactions|leader-election|log-dirs|cluster|explain|'
                                  r'reassign-partitions) [a-z-]+)', file.read_text()))  # fmt: skip
    commands = advised()
    assert len(written) > 6
    assert [each for each in written if not any(one.startswith(each) for one in commands)] == []


def test_the_page_lists_every_finding():
    kinds = set()
    for file in CORE.glob("*_rules.py"):
        kinds |= set(re.findall(r'"((?:cluster|broker|topic|partition|group)\.[a-z-]+)"', file.read_text()))
    kinds -= {"topic.deleting", "topic.deleted", "broker.gone", "broker.registered"}  # events
    page = (ROOT / "docs/explain.md").read_text(encoding="utf-8")
    assert len(kinds) > 30
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []


def test_the_tests_that_the_page_names_expect_the_findings_of_their_row():
    rows = [
        line.split("|") for line in (ROOT / "docs/explain.md").read_text(encoding="utf-8").splitlines() if "|" in line
    ]
    listed = [
        (re.findall(r"`([a-z]+\.[a-z-]+)`", cells[2]), re.findall(r"tests/[a-z_/]+\.py", cells[-2])) for cells in rows
    ]
    missing = []
    for kinds, files in listed:
        texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
        missing += [(kind, files) for kind in kinds if not any(f'"{kind}"' in text for text in texts)]
    assert sum(len(kinds) for kinds, _ in listed) > 30
    assert missing == []


def test_advice_without_a_command_is_a_sentence():
    for given, subject in troubled():
        for finding in diagnose(given, subject):
            for each in finding.helps:
                text = sentence(each, command_line("127.0.0.1:9092"))
                assert text
                assert each.text.endswith(":" if each.command else "."), each
