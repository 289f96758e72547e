"""What an fsync could not write lasts once a later life has written it again and synced it, whenever the fsync failed."""

import pytest

from tests.node.one_broker import OneBroker
from tidelog.errors import DiskFailed
from tidelog.log.checkpoints import CLEAN_SHUTDOWN
from tidelog.sim.faults import Fault

LOG = "/data/t-0/00000000000000000000.log"
SMALL_FILES = ("/data/t-0/partition.metadata", "/data/t-0/leader-epoch-checkpoint")
CLEAN = f"/data/{CLEAN_SHUTDOWN}"


def fails_while_it_runs(broker):
    fails_unnoticed(broker)
    broker.give("disk_failed", 0, "/data", "EIO")


def fails_while_it_stops(broker):
    broker.disk.faults.append(Fault("sync", ".log", times=1))
    broker.node.replicas.close(1)
    assert not broker.disk.exists(CLEAN)


def fails_unnoticed(broker):
    """The process is killed before it learns of it."""
    broker.disk.faults.append(Fault("sync", ".log", times=1))
    with pytest.raises(DiskFailed):
        broker.disk.open(LOG).sync()


def next_life(end):
    """The broker's next life, after an fsync failed in this way, and the content of its log."""
    broker = OneBroker()
    broker.lead(isr=(0,), replicas=(0,))
    broker.produce("m1", "m2")
    for path in ("/data", "/data/t-0"):
        broker.disk.sync_folder(path)
    end(broker)
    content = broker.disk.read(LOG)
    assert content
    broker.disk.kill()
    return OneBroker(disk=broker.disk), content


def flush(broker):
    log = broker.node.replicas.get("t", 0).log
    for file in log.unsynced():
        file.sync()
    assert log.mark_synced(log.log_end_offset)
    return log


@pytest.mark.parametrize("end", [fails_while_it_runs, fails_while_it_stops, fails_unnoticed])
def test_what_an_fsync_could_not_write_lasts_once_the_next_life_synced_it(end):
    broker, content = next_life(end)
    assert broker.node.replicas.get("t", 0).log.recovery_point == 0
    small = [broker.disk.read(path) for path in SMALL_FILES]
    assert flush(broker).recovery_point == 2
    broker.disk.lose_power()
    assert broker.disk.read(LOG) == content
    assert [broker.disk.read(path) for path in SMALL_FILES] == small


def test_an_fsync_alone_would_be_trusted_and_a_power_loss_would_take_the_records(monkeypatch):
    monkeypatch.setattr("tidelog.log.recovery.write_again", lambda segments, recovery_point: None)
    broker, _ = next_life(fails_while_it_stops)
    assert flush(broker).recovery_point == 2
    broker.disk.lose_power()
    assert broker.disk.read(LOG) == b""


def test_a_truncation_that_an_fsync_could_not_write_lasts_once_the_next_life_synced_it():
    """Seed 74844658483 of the metadata quorum: a power loss restored the tail below the recovery point."""
    broker = OneBroker()
    broker.lead(isr=(0,), replicas=(0,))
    broker.produce("m1")
    broker.produce("m2")
    log = flush(broker)
    broker.disk.sync_folder("/data")
    broker.disk.sync_folder("/data/t-0")
    log.truncate_to(1)
    content = broker.disk.read(LOG)
    fails_unnoticed(broker)
    broker.disk.kill()
    broker = OneBroker(disk=broker.disk)
    for file in broker.node.replicas.get("t", 0).log.unsynced():
        file.sync()
    broker.disk.lose_power()
    assert broker.disk.read(LOG) == content


def test_only_records_above_the_recovery_point_are_written_again():
    broker = OneBroker()
    broker.lead(isr=(0,), replicas=(0,))
    broker.produce("m1")
    synced = flush(broker).segments.active.size
    broker.disk.replace("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 1\n")
    broker.produce("m2")
    broker.disk.kill()
    OneBroker(disk=broker.disk)
    inode = broker.disk.inode(LOG)
    assert min(start for start, _ in inode.dirty) == synced
    assert max(end for _, end in inode.dirty) == len(inode.cached)


def test_a_folder_with_a_failed_log_proves_no_clean_stop():
    broker = OneBroker()
    broker.lead(isr=(0,), replicas=(0,))
    broker.produce("m1")
    broker.node.replicas.get("t", 0).log.failed = True
    broker.node.replicas.close(1)
    assert not broker.disk.exists(CLEAN)
