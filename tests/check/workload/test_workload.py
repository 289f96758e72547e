"""The workload on real sockets: what it writes down is a whole history, and a consumer that lies is found out."""

import pytest

from tests.waiting import wait_for
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import FAIL, INFO, OK, SEND, TXN, Header
from tidelog.check.history.text import NotAHistory, parse
from tidelog.check.history.verdict import verify
from tidelog.check.workload import process, target, worker
from tidelog.check.workload.recorder import Recorder, SharedState
from tidelog.check.workload.workload import Plan, Workload
from tidelog.client.admin import Leader
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell import transport
from tidelog.testing import Cluster
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as started:
        yield started


def run_until(workload, enough, **ended):
    """Run until `enough` sends are acknowledged and each named outcome (`commit_ok`) has happened so many times."""
    workload.start()
    outcomes = workload.recorder.outcomes
    least = {tuple(name.split("_")): count for name, count in ended.items()}

    def is_enough():
        workload.tick()
        return workload.recorder.acknowledged >= enough and all(outcomes[each] >= n for each, n in least.items())

    wait_for(is_enough, f"{enough} acknowledgements and {ended}")
    workload.finish()


def read(file):
    with file.open(encoding="utf-8") as lines:
        return parse(lines)


def test_a_history_of_a_healthy_cluster_is_clean(cluster, tmp_path):
    place = target.create_topics(cluster.bootstrap, topics=2, partitions=2)
    workload = Workload(place, Plan(seconds=4, seed=5, rate=400), tmp_path / "h.jsonl")
    run_until(workload, 300, txn_ok=1, send_ok=1, commit_ok=1)
    history = read(tmp_path / "h.jsonl")
    verdict = verify(history)
    assert verdict.is_good, verdict.as_json()
    assert verdict.figures["scans"] == 2
    certain, perhaps = verdict.figures["values_certain"], verdict.figures["values_indeterminate"]
    assert 300 < certain <= verdict.figures["values_read"] <= certain + perhaps
    assert history.header.about["seed"] == 5
    assert {"txn ok", "send ok", "commit ok"} <= set(verdict.figures["calls"])
    target.delete_topics(place)


def test_a_record_that_a_consumer_leaves_out_is_found(cluster, tmp_path, monkeypatch):
    poll = transport.Consumer.poll

    def lying(self, timeout=0, most=None):
        return [record for record in poll(self, timeout, most) if record.value != b"7"]

    monkeypatch.setattr(transport.Consumer, "poll", lying)
    place = target.create_topics(cluster.bootstrap, topics=1, partitions=1)
    run_until(Workload(place, Plan(seconds=4, rate=400, workers=2), tmp_path / "h.jsonl"), 40)
    verdict = verify(read(tmp_path / "h.jsonl"))
    lost = verdict.anomalies["lost-write"]
    assert [anomaly.values for anomaly in lost] == [(7,)]
    assert not verdict.is_good


def test_a_consumer_that_reads_what_was_aborted_is_found(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "ISOLATION", "read_uncommitted")
    monkeypatch.setattr(worker, "ABORT_SHARE", 0.5)
    place = target.create_topics(cluster.bootstrap, topics=1, partitions=2)
    run_until(Workload(place, Plan(seconds=4, rate=400), tmp_path / "h.jsonl"), 60, txn_fail=5)
    verdict = verify(read(tmp_path / "h.jsonl"))
    assert not verdict.is_good
    assert verdict.anomalies["aborted-read"]


def test_records_that_are_gone_at_the_end_are_missed(cluster, tmp_path):
    """A real loss: the broker is told to forget what it acknowledged."""
    place = target.create_topics(cluster.bootstrap, topics=1, partitions=1)
    workload = Workload(place, Plan(seconds=4, rate=400, workers=2), tmp_path / "h.jsonl")
    workload.start()
    wait_for(lambda: workload.recorder.acknowledged >= 20, "20 acknowledgements")
    workload.stop()
    forgotten = DeleteRecordsPartition(partition_index=0, offset=5)
    topic = DeleteRecordsTopic(name=place.topics[0], partitions=[forgotten])
    with transport.Admin(cluster.bootstrap) as admin:
        told = admin.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=30_000), Leader(place.topics[0], 0))
    assert told.topics[0].partitions[0].low_watermark == 5
    workload.finish()
    verdict = verify(read(tmp_path / "h.jsonl"))
    assert not verdict.is_good
    missed = [*verdict.anomalies.get("vanished", ()), *verdict.anomalies.get("lost-write", ())]
    assert {anomaly.offset for anomaly in missed} == set(range(5))


def test_a_history_that_was_not_finished_is_refused(cluster, tmp_path):
    place = target.create_topics(cluster.bootstrap, topics=1, partitions=1)
    workload = Workload(place, Plan(seconds=4), tmp_path / "h.jsonl")
    workload.start()
    workload.stop()
    workload.recorder._out.flush()
    with pytest.raises(NotAHistory, match="cut off"):
        read(tmp_path / "h.jsonl")
    workload.recorder.close()
    assert "unfinished" in verify(read(tmp_path / "h.jsonl")).anomalies


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([ErrorCode.NONE, ErrorCode.NONE], OK),
        ([ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD], FAIL),
        ([ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE], INFO),
        ([ErrorCode.REQUEST_TIMED_OUT], INFO),
        ([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND], INFO),
        ([None], INFO),
    ],
)
def test_only_what_is_certain_is_a_success_or_a_failure(outcomes, expected):
    deliveries = [None if code is None else process.Delivery(1, "t", 0, 5, error=code) for code in outcomes]
    assert process._outcome(deliveries) == expected


def test_a_process_without_a_clear_answer_is_retired(tmp_path, free_ports):
    (port,) = free_ports(1)
    place = target.WorkloadTarget(f"127.0.0.1:{port}", [TopicPartition("t", 0)], "g")
    recorder = Recorder(tmp_path / "h.jsonl", Header([("t", 0)]))
    asked = process.Process(place, recorder, SharedState(1), subscribes=False, delivery_ms=300)
    asked.send([0])
    assert asked.is_retired
    assert recorder.outcomes[SEND, INFO] == 1
    asked.abandon()
    recorder.close()


def test_a_process_that_cannot_take_its_transactional_id_over_does_not_begin(tmp_path, free_ports):
    (port,) = free_ports(1)
    place = target.WorkloadTarget(f"127.0.0.1:{port}", [TopicPartition("t", 0)], "g")
    recorder = Recorder(tmp_path / "h.jsonl", Header([("t", 0)]))
    with pytest.raises(ApiError):
        process.Process(place, recorder, SharedState(1), subscribes=False, delivery_ms=300, transactional_id="x")
    recorder.close()


def test_a_fenced_process_has_failed_for_certain_and_is_retired(cluster, tmp_path):
    place = target.create_topics(cluster.bootstrap, topics=1, partitions=1)
    recorder = Recorder(tmp_path / "h.jsonl", Header([tuple(place.partitions[0])]))
    shared = SharedState(1)
    # Where its two records go in two batches, the second one of a fenced producer ends by the delivery timeout.
    given = {"subscribes": False, "transactional_id": "taken-over", "delivery_ms": process.DELIVERIES_MS[0]}
    first, second = (process.Process(place, recorder, shared, **given) for _ in range(2))
    first.transact([0, 0], polls=False, aborts=False)
    assert (first.is_retired, recorder.outcomes[TXN, FAIL]) == (True, 1)
    second.transact([0, 0], polls=True, aborts=False)
    second.transact([0], polls=False, aborts=True)
    assert (second.is_retired, recorder.outcomes[TXN, OK], recorder.outcomes[TXN, FAIL]) == (False, 1, 2)
    for each in (first, second):
        each.abandon()
    recorder.close()
    sent = [write.fate for writes in Facts(read(tmp_path / "h.jsonl")).writes.values() for write in writes.values()]
    assert sent == [FAIL, FAIL, OK, OK, FAIL]
