"""The history checker runs unchanged against processes of ours whose leaders die, and against a real Apache Kafka 4.3.1."""

import pytest

from tests.waiting import wait_for
from tidelog.check.history.text import parse
from tidelog.check.history.verdict import verify
from tidelog.check.workload import target
from tidelog.check.workload.workload import Plan, Workload

pytestmark = pytest.mark.timeout(900)

KILLS = 3


def judged(file):
    with file.open(encoding="utf-8") as lines:
        return verify(parse(lines))


def await_more(workload, count):
    """Run the workload until so many more sends are acknowledged."""
    goal = workload.recorder.acknowledged + count

    def is_reached():
        workload.tick()
        return workload.recorder.acknowledged >= goal

    wait_for(is_reached, f"{count} more acknowledgements")


def test_brokers_that_are_killed_lose_nothing(cluster, tmp_path):
    place = target.create_topics(cluster.bootstrap, topics=2, partitions=3)
    workload = Workload(place, Plan(seconds=20, seed=3, rate=400), tmp_path / "h.jsonl")
    workload.start()
    for kill in range(KILLS):
        await_more(workload, 100)
        cluster.kill(kill % 3)
        await_more(workload, 50)
        cluster.start_broker(kill % 3)
        cluster.wait_ready()
    workload.finish()
    verdict = judged(tmp_path / "h.jsonl")
    assert verdict.is_good, verdict.as_json()
    assert verdict.figures["scans"] == 2


def test_apache_kafka_passes_the_same_checks(real_kafka, tmp_path):
    place = target.create_topics(real_kafka, topics=2, partitions=2)
    workload = Workload(place, Plan(seconds=8, seed=4), tmp_path / "h.jsonl")
    workload.start()
    await_more(workload, 300)
    workload.finish()
    verdict = judged(tmp_path / "h.jsonl")
    assert verdict.is_good, verdict.as_json()
    certain, perhaps = verdict.figures["values_certain"], verdict.figures["values_indeterminate"]
    assert 300 < certain <= verdict.figures["values_read"] <= certain + perhaps
