"""The same crash under three settings of a client (application.py), on real processes: at most once loses, at least once
repeats, exactly once does neither. Story 10 of the lab tells why.

The application is killed between its two steps, and with it the leader of what it writes to; both are started again.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compatibility.application import PRODUCERS, TOGETHER
from tests.compatibility.support import Topic, known_to_all, read
from tests.waiting import PATIENCE_S, wait_for

COUNT = 200
DIES_AT = 100
HALF = set(range(DIES_AT, DIES_AT + TOGETHER))
"""What the application had half done when it died."""
APPLICATION = Path(__file__).with_name("application.py")


@pytest.fixture
def outcome(cluster, request) -> tuple[set[int], set[int], Topic]:
    """(numbers that are missing, numbers that are there more than once, the topic they are in)."""
    setting = request.param
    source = Topic(cluster.bootstrap, f"{setting}-in", 1, min_insync_replicas="2")
    target = Topic(cluster.bootstrap, f"{setting}-out", 1, min_insync_replicas="2")
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        sender.produce(source.name, b"%d" % number, partition=0)
    assert sender.flush(PATIENCE_S) == 0
    command = [sys.executable, str(APPLICATION), cluster.bootstrap, source.name, target.name, setting, str(COUNT)]
    with subprocess.Popen([*command, str(DIES_AT)], stdout=subprocess.PIPE, text=True) as application:
        assert application.stdout is not None
        assert application.stdout.readline() == "between\n"
        leader = target.led_by()
        application.kill()
        cluster.kill(leader)
    wait_for(lambda: target.leader() not in (-1, leader), "another leader")
    cluster.start_broker(leader)
    cluster.wait_ready()
    # Whoever asks for no answer is not told that he writes to the leader of before.
    wait_for(lambda: known_to_all(cluster, target.name) and len(target.isrs()[0]) == 3, "all replicas")
    assert subprocess.run([*command, "-1"], check=False, timeout=PATIENCE_S * 2).returncode == 0
    wait_for(lambda: str(COUNT - 1) in read(cluster.bootstrap, target), "the last of them")
    found = Counter(map(int, read(cluster.bootstrap, target)))
    assert found.keys() <= set(range(COUNT))
    return set(range(COUNT)) - found.keys(), {number for number, times in found.items() if times > 1}, target


@pytest.mark.parametrize("outcome", ["at_most_once"], indirect=True)
def test_at_most_once_loses_and_does_not_repeat(outcome):
    missing, repeated, _ = outcome
    assert missing >= HALF
    assert repeated == set()


@pytest.mark.parametrize("outcome", ["at_least_once"], indirect=True)
def test_at_least_once_repeats_and_does_not_lose(outcome):
    missing, repeated, _ = outcome
    assert missing == set()
    assert repeated >= HALF


@pytest.mark.parametrize("outcome", ["exactly_once"], indirect=True)
def test_exactly_once_neither_loses_nor_repeats(outcome, cluster):
    missing, repeated, topic = outcome
    assert (missing, repeated) == (set(), set())
    assert read(cluster.bootstrap, topic) == [str(number) for number in range(COUNT)]
    everything = Counter(map(int, read(cluster.bootstrap, topic, "read_uncommitted")))
    assert {number for number, times in everything.items() if times > 1} == HALF, "the first time was aborted"


def test_the_settings_are_those_of_the_story():
    story = (Path(__file__).parents[2] / "src/tidelog/lab/stories/delivery-semantics.txt").read_text(encoding="utf-8")
    (knob,) = [line for line in story.splitlines() if line.startswith("knob semantics:")]
    assert {value.strip("[]") for value in knob.split()[2:]} == set(PRODUCERS)
