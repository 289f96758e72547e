"""Every file in the folder of a metadata quorum's only voter, with a bit that changed. Invariant (I30): the next process
has every committed record, and takes more, or it does not start and one sentence names what is damaged.

One voter, because nobody else has the records: a node that starts on rot would lose them for good.

TIDELOG_ROT_STEP=1 takes every byte.
"""

import os
from random import Random

import pytest

from tests.node.quorum.quorum_cluster import FOLDER, QuorumCluster
from tidelog.errors import CorruptLog
from tidelog.ports import Create, Write
from tidelog.quorum.options import DEFAULTS
from tidelog.sim.disk import SimDisk
from tidelog.wire.records import batches

STEP = int(os.environ.get("TIDELOG_ROT_STEP", "0"))
METADATA = f"{FOLDER}/__cluster_metadata-0"
SETUP = {
    "snapshot_bytes": 3_000,
    "segment_bytes": 16_384,
    "options": DEFAULTS._replace(retention_bytes=1, fetch_bytes=4_096, snapshot_bytes=1_000),
}
PATH, WRITES = "/cluster/x", 40


def write(cluster, operation):
    results = cluster.submit(0, operation)
    cluster.wait(lambda: results)
    assert results[0].outcome == "ok"


@pytest.fixture(scope="module")
def files():
    """What a killed process left: a snapshot, the log after it, and how much was committed."""
    cluster = QuorumCluster(1, setup=SETUP).start()
    cluster.settle()
    write(cluster, Create(PATH, b""))
    for number in range(WRITES):
        write(cluster, Write(PATH, b"%05d" % number * 60))
    cluster.run(5_000)  # by then it is written what was committed
    cluster.kill(0)
    disk = cluster.disks[0]
    disk.kill()
    names = [name for name in disk.list(METADATA) if not name.endswith(".old")]
    return {name: disk.read(f"{METADATA}/{name}") for name in names}


def restarted(files):
    """A cluster of one that has started on these files; CorruptLog if it refuses."""
    cluster = QuorumCluster(1, setup=SETUP)
    disk = cluster.disks[0] = SimDisk([FOLDER], Random(0))
    disk.make_folder(METADATA)
    for name, content in files.items():
        disk.replace(f"{METADATA}/{name}", content)
    cluster.start()
    cluster.wait(lambda: cluster.is_settled() or cluster.processes[0].stopped is not None)
    if cluster.processes[0].stopped is not None:
        raise CorruptLog(cluster.processes[0].stopped)
    return cluster


def written(cluster):
    node = cluster.tree(0).nodes[PATH]
    return node.data, node.version


def test_the_files_are_of_every_kind(files):
    kinds = {name.partition(".")[2] or name for name in files}
    assert kinds >= {"log", "checkpoint", "committed-state", "quorum-state", "leader-epoch-checkpoint", "metadata"}
    cluster = restarted(files)
    assert written(cluster) == (b"%05d" % (WRITES - 1) * 60, WRITES)


def test_a_changed_bit_loses_no_committed_record(files):
    refused = {}
    for name, content in files.items():
        for position in range(len(content) - 1, -1, -(STEP or max(1, len(content) // 24))):
            changed = bytearray(content)
            changed[position] ^= 1 << position % 8
            try:
                cluster = restarted(files | {name: bytes(changed)})
            except CorruptLog as refusal:
                refused[name] = str(refusal)
                continue
            assert written(cluster) == (b"%05d" % (WRITES - 1) * 60, WRITES), (name, position)
            write(cluster, Write(PATH, b"more"))
    assert {"quorum-state", "committed-state"} <= refused.keys()
    assert all(METADATA in refusal for refusal in refused.values()), refused


def test_an_epoch_that_rots_is_noticed_though_no_checksum_covers_it(files):
    """The log was cut at the next batch, though that was committed, and its only voter was a candidate without end."""
    logs = [name for name in files if name.endswith(".log")]
    places = [(name, each.position) for name in logs for each in batches(memoryview(files[name]))]
    assert len(places) > 2
    for name, begin in places:
        for position in range(begin + 12, begin + 16):
            changed = bytearray(files[name])
            changed[position] ^= 1 << position % 8
            with pytest.raises(CorruptLog, match=r"is damaged|records of epoch"):
                restarted(files | {name: bytes(changed)})
