"""The same crash under three settings of a client (application.py), on real processes: at most once loses, at least once
repeats, exactly once does neither. Story 10 of the lab tells why.

The application is killed between its two steps, and with it the leader of what it writes to; both are started again.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compatibility.application import PRODUCERS, TOGETHER
from tests.compatibility.support import Topic, known_to_all, read
from tests.output import read_line
from tests.waiting import PATIENCE_S, wait_for

COUNT = 200
DIES_AT = 100
HALF = set(range(DIES_AT, DIES_AT + TOGETHER))
"""What the application had half done when it died."""
APPLICATION = Path(__file__).with_name("application.py")


@dataclass
class Outcome:
    missing: set[int]
    repeated: set[int]
    topic: Topic


@pytest.fixture(scope="module")
def outcomes(cluster) -> dict[str, Outcome]:
    """By setting: which numbers are missing, and which are there more than once. All of them see the same crash."""
    topics = {
        setting: (
            Topic(cluster.bootstrap, f"{setting}-in", 1, leader=0, min_insync_replicas="2"),
            Topic(cluster.bootstrap, f"{setting}-out", 1, leader=1, min_insync_replicas="2"),
        )
        for setting in PRODUCERS
    }
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for source, _ in topics.values():
        for number in range(COUNT):
            sender.produce(source.name, b"%d" % number, partition=0)
    assert sender.flush(PATIENCE_S) == 0
    targets = [target for _, target in topics.values()]
    with ExitStack() as exits:
        applications = [exits.enter_context(started(cluster, topics, each, DIES_AT)) for each in topics]
        for application in applications:
            assert application.stdout is not None
            assert read_line(application.stdout, PATIENCE_S * 2) == "between\n"
        leader = targets[0].led_by()
        assert [target.led_by() for target in targets] == [leader] * len(targets)
        for application in applications:
            application.kill()
        cluster.kill(leader)
    for target in targets:
        wait_for(lambda target=target: target.leader() not in (-1, leader), "another leader")
    cluster.start_broker(leader)
    cluster.wait_ready()
    for target in targets:
        # Whoever asks for no answer is not told that he writes to the leader of before.
        wait_for(
            lambda target=target: known_to_all(cluster, target.name) and len(target.isrs()[0]) == 3, "all replicas"
        )
    with ExitStack() as exits:
        applications = [exits.enter_context(started(cluster, topics, each, -1)) for each in topics]
        assert [application.wait(PATIENCE_S * 2) for application in applications] == [0] * len(applications)
    return {setting: found(cluster, target) for setting, (_, target) in topics.items()}


@contextmanager
def started(cluster, topics, setting, dies_at) -> Iterator[subprocess.Popen[str]]:
    source, target = topics[setting]
    command = [sys.executable, str(APPLICATION), cluster.bootstrap, source.name, target.name, setting, str(COUNT)]
    with subprocess.Popen([*command, str(dies_at)], stdout=subprocess.PIPE, text=True) as application:
        try:
            yield application
        finally:
            application.kill()


def found(cluster, target) -> Outcome:
    wait_for(lambda: str(COUNT - 1) in read(cluster.bootstrap, target), "the last of them")
    times = Counter(map(int, read(cluster.bootstrap, target)))
    assert times.keys() <= set(range(COUNT))
    return Outcome(set(range(COUNT)) - times.keys(), {number for number, count in times.items() if count > 1}, target)


def test_at_most_once_loses_and_does_not_repeat(outcomes):
    outcome = outcomes["at_most_once"]
    assert outcome.missing >= HALF
    assert outcome.repeated == set()


def test_at_least_once_repeats_and_does_not_lose(outcomes):
    outcome = outcomes["at_least_once"]
    assert outcome.missing == set()
    assert outcome.repeated >= HALF


def test_exactly_once_neither_loses_nor_repeats(outcomes, cluster):
    outcome = outcomes["exactly_once"]
    assert (outcome.missing, outcome.repeated) == (set(), set())
    assert read(cluster.bootstrap, outcome.topic) == [str(number) for number in range(COUNT)]
    everything = Counter(map(int, read(cluster.bootstrap, outcome.topic, "read_uncommitted")))
    assert {number for number, times in everything.items() if times > 1} == HALF, "the first time was aborted"


def test_the_settings_are_those_of_the_story():
    story = (Path(__file__).parents[2] / "src/tidelog/lab/stories/delivery-semantics.txt").read_text(encoding="utf-8")
    (knob,) = [line for line in story.splitlines() if line.startswith("knob semantics:")]
    assert {value.strip("[]") for value in knob.split()[2:]} == set(PRODUCERS)
