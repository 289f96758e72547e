"""A folder that refused something: what an fsync could not write is written again by the next life, and lasts."""

import pytest

from tests.node.one_broker import OneBroker
from tidelog.errors import DiskFailed
from tidelog.node.log_dirs import DOUBTFUL
from tidelog.sim.faults import Fault

LOG = "/data/t-0/00000000000000000000.log"


def refused_fsync():
    """The disk of a broker whose fsync of a log failed, and that was killed then."""
    broker = OneBroker()
    broker.lead(isr=(0,), replicas=(0,))
    broker.produce("m1", "m2")
    disk = broker.disk
    for path in ("/data", "/data/t-0"):
        disk.sync_folder(path)
    disk.faults.append(Fault("sync", ".log", times=1))
    with pytest.raises(DiskFailed):
        disk.open(LOG).sync()
    broker.give("disk_failed", 0, "/data", "EIO")
    disk.kill()
    return disk


def test_without_doubt_the_next_fsync_would_be_trusted_and_a_power_loss_would_take_the_records():
    disk = refused_fsync()
    disk.remove(f"/data/{DOUBTFUL}")
    OneBroker(disk=disk)
    disk.open(LOG).sync()
    disk.lose_power()
    assert disk.read(LOG) == b""


def test_what_a_refused_fsync_left_in_the_page_cache_is_made_durable_by_the_next_life():
    disk = refused_fsync()
    content = disk.read(LOG)
    assert content
    OneBroker(disk=disk)
    assert not disk.exists(f"/data/{DOUBTFUL}")
    disk.lose_power()
    assert disk.read(LOG) == content


def test_a_folder_that_still_refuses_stays_doubtful():
    disk = refused_fsync()
    disk.faults.append(Fault("sync", ".log"))
    broker = OneBroker(disk=disk)
    assert broker.stopped == "every log folder failed"
    assert disk.exists(f"/data/{DOUBTFUL}")
