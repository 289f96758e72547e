"""Snapshots of the metadata: what is written is read, whole or not at all (I38), and whatever happens while it is written."""

from itertools import pairwise
from random import Random

import pytest

from tests.quorum.trees import Replica, opened
from tidelog.errors import CorruptLog
from tidelog.ports import Create, Node
from tidelog.quorum import snapshots
from tidelog.quorum.records import MOST_BYTES, StoredNode
from tidelog.quorum.snapshots import (
    SLICE_BYTES,
    SLICE_RECORDS,
    Held,
    Incoming,
    QuorumState,
    SnapshotId,
    content_of,
    control_batch,
    first_kept,
    held,
    is_due,
    load,
    make,
    parse_name,
    remove_unfinished,
)
from tidelog.quorum.tree import TreeImage
from tidelog.sim.disk import PowerCut, SimDisk
from tidelog.wire.messages.cluster.metadata_log import (
    FeatureLevelRecord,
    KRaftVersionFeature,
    SnapshotFooterRecord,
    UserScramCredentialRecord,
    Voter,
    VoterEndpoint,
)
from tidelog.wire.records import batches

FOLDER = "/data/__cluster_metadata-0"
WHICH = SnapshotId(41, 3)
STATE = QuorumState(
    1,
    [
        Voter(
            voter_id=2,
            voter_directory_id=b"v" * 16,
            endpoints=[VoterEndpoint(name="CONTROLLER", host="one", port=65_000)],
            k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
        )
    ],
)


def picture(nodes: int = 120) -> TreeImage:
    replica = Replica()
    session = replica.open()
    for start in range(0, nodes, 100):
        created = [Create(f"/brokers/topics/t{number}", b"%d" % number) for number in range(start, start + 100)]
        replica.change(session, created)
    replica.change(session, [Create("/controller", b"1", True)])
    return replica.tree.picture()


def whole(taken: TreeImage, state: QuorumState = STATE) -> bytes:
    return b"".join(content_of(WHICH.epoch, taken.records(), state, last_timestamp=1000))


def loaded(content: bytes, epoch: int | None = None):
    steps = load(content, "file", epoch)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def disk(seed: int = 0) -> SimDisk:
    made = SimDisk(["/data"], Random(seed))
    made.make_folder(FOLDER)
    return made


def through(steps) -> int:
    """Carry out the steps as a node would; how many there were."""
    count = 0
    for files in steps:
        for file in files:
            file.sync()
        count += 1
    return count


def test_a_snapshot_holds_the_tree_the_voters_and_the_time_of_the_last_record():
    taken = picture()
    found = loaded(whole(taken), WHICH.epoch)
    assert found.tree.picture() == taken
    found.tree.check_invariants()
    assert (found.state, found.last_timestamp, found.features, found.users) == (STATE, 1000, {}, [])


def test_a_formatted_folder_has_features_and_users_but_no_tree():
    user = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    records = [FeatureLevelRecord(name="metadata.version", feature_level=30), user]
    content = b"".join(content_of(0, records, QuorumState(), last_timestamp=5, timestamp=9))
    found = loaded(content)
    assert (found.features, found.users, found.tree.nodes) == ({"metadata.version": 30}, [user], {})
    assert found.state == QuorumState(0, None)
    assert {batch.max_timestamp for batch in batches(content)} == {9}


def test_it_is_written_in_slices_that_are_batches():
    large = [StoredNode(f"/{number}", Node(bytes(40_000), 0, 1)) for number in range(3)]
    content = b"".join(content_of(3, [*picture().records(), *large], STATE, last_timestamp=0))
    sizes = [(batch.count, batch.length) for batch in batches(content)][1:-1]
    assert max(count for count, _ in sizes) == SLICE_RECORDS
    assert max(length for _, length in sizes) < SLICE_BYTES + 40_200
    offsets = [(batch.base_offset, batch.next_offset) for batch in batches(content)]
    assert all(before[1] == after[0] for before, after in pairwise(offsets))


def test_the_largest_node_has_its_place():
    node = Node(bytes(MOST_BYTES), 0, 1)
    assert loaded(whole(TreeImage({"/a": node}, ()))).tree.nodes == {"/a": node}


def test_names_are_kafkas():
    assert WHICH.file_name == "00000000000000000041-0000000003.checkpoint"
    assert parse_name(WHICH.file_name) == WHICH
    names = [f"{WHICH.file_name}.part", "bootstrap.checkpoint", SnapshotId(5, 9).file_name, WHICH.file_name, "x"]
    assert held(names) == [SnapshotId(5, 9), WHICH]


def test_the_same_tree_has_the_same_bytes_on_every_node():
    assert whole(picture()) == whole(loaded(whole(picture())).tree.picture())


@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "empty", "no footer", "no header", "twice", "a batch is missing", "goes on", "a tail"]
)
def test_a_snapshot_that_is_not_whole_is_refused(damage):
    content = whole(picture())
    found = list(batches(content))
    damaged = {
        "cut": content[:-1],
        "flipped": content[:900] + bytes([content[900] ^ 4]) + content[901:],
        "empty": b"",
        "no footer": content[: found[-1].position],
        "no header": content[found[1].position :],
        "twice": content + content,
        "goes on": content
        + control_batch([SnapshotFooterRecord()], timestamp=0, base_offset=found[-1].next_offset, epoch=3),
        "a tail": content + bytes(5),
        "a batch is missing": content[: found[1].position] + content[found[2].position :],
    }[damage]
    with pytest.raises(CorruptLog, match=r"^file: "):
        loaded(damaged)


def test_every_cut_of_a_snapshot_is_noticed():
    content = whole(TreeImage({"/a": Node(b"1", 0, 1)}, (opened(1),)))
    for end in range(len(content)):
        with pytest.raises(CorruptLog):
            loaded(content[:end])


def test_a_snapshot_of_another_epoch_is_refused():
    with pytest.raises(CorruptLog, match="a batch of epoch 3"):
        loaded(whole(picture()), epoch=4)


def test_a_fetched_snapshot_counts_once_it_is_whole_and_durable():
    content, there = whole(picture()), disk()
    incoming = Incoming(there, FOLDER, WHICH)
    for start in range(0, len(content), 1000):
        assert incoming.position == start
        incoming.write(content[start : start + 1000])
    assert held(there.list(FOLDER)) == []
    assert len(list(incoming.check(len(content)))) == len(list(batches(content)))
    through(incoming.finish())
    there.lose_power()
    assert held(there.list(FOLDER)) == [WHICH]
    assert there.read(f"{FOLDER}/{WHICH.file_name}") == content


@pytest.mark.parametrize(("wrong", "message"), [("size", "bytes, 7 were announced"), ("bytes", "is damaged")])
def test_a_fetched_snapshot_that_is_not_what_was_announced_is_refused(wrong, message):
    content, there = whole(picture()), disk()
    incoming = Incoming(there, FOLDER, WHICH)
    incoming.write(content[:500] + bytes([content[500] ^ 255]) + content[501:])
    with pytest.raises(CorruptLog, match=message):
        list(incoming.check(7 if wrong == "size" else len(content)))
    incoming.discard()
    assert there.list(FOLDER) == []


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_operation_leaves_a_whole_snapshot_or_none(power):
    taken = picture(100)
    operations, is_done = 0, False
    while not is_done:
        there = disk(operations)
        there.operations_left = operations
        try:
            through(make(there, FOLDER, WHICH, taken, STATE, 7))
            is_done = True
        except PowerCut:
            pass
        if power:
            there.lose_power()
        else:
            there.kill()
        if there.exists(FOLDER):
            remove_unfinished(there, FOLDER)
            found = held(there.list(FOLDER))
            assert there.list(FOLDER) == [each.file_name for each in found]
            assert found == [WHICH] or not is_done
            for each in found:
                assert loaded(there.read(f"{FOLDER}/{each.file_name}"), each.epoch).tree.picture() == taken
        operations += 1
    assert operations > 8


def test_a_snapshot_is_due_after_so_many_bytes_or_so_long_with_something_new():
    due = {"max_bytes": 100, "interval_ms": 1000}
    assert [is_due(size, ms, **due) for size, ms in [(0, 10**9), (99, 999), (100, 0), (1, 1000)]] == [
        False,
        False,
        True,
        True,
    ]
    assert not is_due(1, 10**9, max_bytes=100, interval_ms=0)


def test_snapshots_go_when_there_are_too_many_bytes_or_they_are_too_old_but_never_the_newest():
    ids = [SnapshotId(end, 1) for end in (10, 20, 30)]
    three = [Held(each, 100, each.end_offset) for each in ids]

    def kept(log_bytes=50, now=31, **limits):
        return first_kept(three, log_bytes, now, **{"retention_bytes": -1, "retention_ms": -1, **limits})

    assert kept() == ids[0]
    assert [kept(retention_bytes=size) for size in (350, 349, 250, 249, 0)] == [ids[0], ids[1], ids[1], ids[2], ids[2]]
    assert [kept(retention_ms=ms) for ms in (21, 20, 11, 10, 0)] == [ids[0], ids[1], ids[1], ids[2], ids[2]]
    assert snapshots.first_kept(three[-1:], 10**9, 10**9, retention_bytes=0, retention_ms=0) == ids[2]
