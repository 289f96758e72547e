"""Work that concerns every replica is done in slices, one in each turn of the loop, and misses none."""

import pytest

from tests.node.one_broker import OneBroker
from tidelog.log.checkpoints import read_offsets
from tidelog.log.log import Log
from tidelog.log.soundness import Soundness
from tidelog.node.upkeep import integrity, upkeep
from tidelog.partition.partition import Partition

LED = 12
ALONE = {"isr": (0,), "replicas": (0,)}
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "replication-offset-checkpoint",
)


def leading(monkeypatch, size=5, **options):
    """A broker with some partitions, whose turns look at `size` of them."""
    broker = OneBroker(min_insync_replicas=1, **options)
    for index in range(LED):
        broker.lead(**ALONE, index=index)
    for module in (upkeep, integrity):
        monkeypatch.setattr(module, "SLICE", size)
    return broker


def noting(monkeypatch, of, method):
    """The objects on which the method is called from now on."""
    called, original = [], getattr(of, method)

    def noted(self, *given):
        called.append(self)
        return original(self, *given)

    monkeypatch.setattr(of, method, noted)
    return called


@pytest.mark.parametrize(
    ("of", "method", "ms"),
    [
        (Log, "delete_old_segments", 300_000),
        (Partition, "propose_shrink", 15_000),
        (Soundness, "age", 10_000),
    ],
    ids=["retention", "lag", "trust"],
)
def test_a_turn_looks_at_a_slice_of_the_replicas(monkeypatch, of, method, ms):
    """With 50,000 replicas retention took 380 ms."""
    broker = leading(monkeypatch)
    broker.passes(ms - 1)
    called, sizes = noting(monkeypatch, of, method), []
    broker._at(broker.now.mono + 1)
    while broker.node.next_deadline <= broker.now.mono:
        before = len(called)
        broker.give("wake")
        if len(called) > before:
            sizes.append(len(called) - before)
    assert sizes == [5, 5, 2]
    assert len(set(called)) == LED


def test_a_replica_that_is_deleted_between_two_slices_is_left_alone(monkeypatch):
    broker = leading(monkeypatch)
    broker.passes(299_999)
    called = noting(monkeypatch, Log, "delete_old_segments")
    broker._at(broker.now.mono + 1)
    gone = broker.partition(11).log
    broker.give("wake")
    assert len(called) <= 5
    broker.delete(11)
    broker.passes(1)
    assert len(called) == LED - 1
    assert gone not in called


def test_deletions_write_each_checkpoint_in_a_turn_of_its_own_and_once_for_all_of_them(monkeypatch):
    """With 50,000 replicas the four took 150 ms, after each StopReplica. The log starts do not wait: after a crash what
    ends below one is lost."""
    broker = leading(monkeypatch)
    broker.produce("m", index=3)
    broker.partition(3).delete_records_before(1)
    broker.passes(70_000)
    assert broker.disk.read(f"/data/{CHECKPOINTS[1]}") == b"0\n1\nt 3 1\n"
    written, replace = [], broker.disk.replace

    def noted(path, content, **how):
        written.append(path.removeprefix("/data/"))
        replace(path, content, **how)

    monkeypatch.setattr(broker.disk, "replace", noted)
    broker._at(broker.now.mono + 1)
    for index in (3, 4, 5):
        broker.delete(index)
        assert written == [CHECKPOINTS[1]]
    turn_of = []
    while broker.node.next_deadline <= broker.now.mono:
        broker.give("wake")
        turn_of.append(len(written))
    left = [index for index in range(LED) if index not in (3, 4, 5)]
    assert written[1:] == [CHECKPOINTS[0], *CHECKPOINTS[2:]]
    assert turn_of[:3] == [2, 3, 4]
    for name in (CHECKPOINTS[0], CHECKPOINTS[3]):
        content = broker.disk.read(f"/data/{name}")
        assert [found.partition for found in read_offsets(content, name)] == left
