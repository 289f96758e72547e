"""Keys, majorities and the history of voter sets; the state's file."""

import json

import pytest
from crc32c import crc32c

from tidelog.errors import CorruptLog
from tidelog.quorum.election import LogEnd, may_grant_vote
from tidelog.quorum.state_file import ElectionState, format_state, parse_state
from tidelog.quorum.states import Tally, Unattached
from tidelog.quorum.voters import NOBODY, ReplicaKey, VoterSet, VoterSetHistory

KEYS = [ReplicaKey(n, bytes([n]) * 16) for n in (3, 1, 5, 2)]


def test_a_voter_is_an_id_and_a_directory_unless_directories_are_unknown():
    voters = VoterSet(KEYS)
    assert voters.ids == (1, 2, 3, 5)
    assert KEYS[0] in voters
    assert ReplicaKey(3, b"other directory!") not in voters
    assert ReplicaKey(3, b"other directory!") in VoterSet(map(ReplicaKey, (1, 3)), directories=False)
    assert voters.key_of(4) == NOBODY


@pytest.mark.parametrize(
    ("values", "reached"), [({1: 9, 2: 8, 3: 7}, 7), ({1: 9, 2: 8}, 0), ({1: 9, 2: 9, 3: 9, 5: 9, 4: 99}, 9)]
)
def test_what_a_majority_has_reached(values, reached):
    assert VoterSet(KEYS).reached_by_majority(values, 0) == reached


def test_ranks():
    voters = VoterSet(KEYS)
    assert [voters.rank(voter) for voter in voters.ids] == [0, 1, 2, 3]
    assert [voters.rank(voter, behind=3) for voter in (5, 1, 2)] == [0, 1, 2]
    assert voters.rank(5, behind=4) == 0


def test_what_the_records_before_an_offset_say():
    history = VoterSetHistory(VoterSet(KEYS))
    history.append(7, VoterSet(KEYS[:3]))
    history.append(9, VoterSet(KEYS[:2]))
    assert [len(history.at(end)) for end in (0, 7, 8, 9, 10, 99)] == [4, 4, 3, 3, 2, 2]


def test_a_history_is_cut():
    history = VoterSetHistory(VoterSet(KEYS))
    history.append(7, VoterSet(KEYS[:3]))
    history.append(9, VoterSet(KEYS[:2]))
    history.cut(9)
    assert (history.latest_offset, len(history.latest)) == (7, 3)
    history.cut(0)
    assert (history.latest_offset, len(history.latest)) == (-1, 4)


def test_a_tally():
    tally = Tally(VoterSet(KEYS), {1, 2})
    assert (tally.is_won, tally.is_lost, tally.missing) == (False, False, [3, 5])
    tally.rejected |= {3}
    assert not tally.is_lost
    tally.rejected |= {5}
    assert tally.is_lost


BY_KAFKA = b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


def test_the_file_is_as_kafka_writes_it_with_a_checksum():
    state = ElectionState(5, 1, NOBODY)
    assert format_state(state, directories=True) == BY_KAFKA[:-1] + b',"crc32c":"%08x"}' % crc32c(BY_KAFKA)
    assert parse_state(BY_KAFKA, "f") == state
    static = format_state(ElectionState(2, -1, ReplicaKey(3)), directories=False, cluster_id="c", voters=(1, 3))
    assert json.loads(static)["currentVoters"] == [{"voterId": 1}, {"voterId": 3}]
    for each in (state, ElectionState(4, -1, KEYS[0])):
        assert parse_state(format_state(each, directories=True), "f") == each
    assert parse_state(static, "f") == ElectionState(2, -1, ReplicaKey(3))


@pytest.mark.parametrize("directories", [True, False])
def test_a_digit_that_rots_is_no_other_vote(directories):
    """A wrong epoch or vote let a replica vote twice; Kafka's file has no checksum."""
    state = ElectionState(15, -1, KEYS[0] if directories else ReplicaKey(3))
    content = format_state(state, directories=directories, cluster_id="c", voters=(1, 3))
    refused = []
    for position in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            try:
                assert parse_state(bytes(changed), "f") == state, bytes(changed)
            except CorruptLog as refusal:
                refused.append(str(refusal))
    assert len(refused) > 7 * len(content)
    assert all(each.startswith("f: not a quorum state; restore the file") for each in refused)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AA","data_version":1}',
        b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":2}',
        b'{"leaderId":1,"leaderEpoch":-5,"votedId":-1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":"5","votedId":-1,"data_version":0}',
    ],
)
def test_a_file_that_is_something_else_is_refused(content):
    with pytest.raises(CorruptLog, match="f: "):
        parse_state(content, "f")


def test_logs_are_compared_by_epoch_first():
    state, election = Unattached(0), ElectionState(7)
    own = LogEnd(3, 10)
    granted = [
        may_grant_vote(state, election, KEYS[0], end, own)
        for end in (LogEnd(3, 9), LogEnd(3, 10), LogEnd(2, 99), LogEnd(4, 0))
    ]
    assert granted == [False, True, False, True]
