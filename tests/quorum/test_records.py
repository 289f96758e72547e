"""Records of the metadata log and their bytes; Kafka's own messages against kio."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.test_tree import change
from tests.quorum.trees import opened, through_bytes
from tidelog.errors import ProtocolViolation
from tidelog.ports import Create, Node
from tidelog.quorum.records import (
    MOST_BYTES,
    MOST_CHANGES,
    Foreign,
    RecordTooLarge,
    SessionEnded,
    SessionOpened,
    StoredNode,
    TreeChanges,
    decode,
    encode,
)
from tidelog.wire.messages.cluster.metadata_log import FeatureLevelRecord

numbers = st.integers(0, 2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
changes = st.lists(change, max_size=5).map(tuple)
anything = st.one_of(
    st.builds(TreeChanges, numbers, numbers, changes),
    st.builds(SessionOpened, st.integers(0, 9), ids, st.lists(ids, max_size=3).map(tuple), numbers, changes),
    st.builds(SessionEnded, numbers, st.sampled_from(["", "the lease is over"])),
    st.builds(StoredNode, st.just("/a"), st.builds(Node, st.binary(max_size=9), st.integers(0, 9), numbers, numbers)),
    st.just(opened(4)),
    st.builds(FeatureLevelRecord, name=st.just("kraft.version"), feature_level=st.integers(-1, 9)),
)


@given(anything)
def test_a_record_is_what_was_written(record):
    assert through_bytes(record) == record


def test_the_frame_is_kafkas_with_types_from_30000_on():
    assert encode(SessionEnded(7)).hex(" ") == "01 b2 ea 01 00 00 00 00 00 00 00 00 07 01 00"
    assert encode(FeatureLevelRecord(name="a", feature_level=1)).hex(" ") == "01 0c 00 02 61 00 01 00"


def test_types_that_are_not_known_are_named():
    assert decode(bytes.fromhex("01 02 00 ff")) == Foreign(2)


@pytest.mark.parametrize(
    "value", ["", "01", "02 0c 00", "01 0c 01 02 61 00 01 00", "01 0c 00 05 61", "01 b2 ea 01 00 00", "01 b0 ea 01 00" + 16 * " 00" + " 02 09 02 61 01 00 00 00 00 00 00"],
)  # fmt: skip
def test_malformed_records_are_refused(value):
    with pytest.raises(ProtocolViolation, match="malformed"):
        decode(bytes.fromhex(value))


def test_a_record_has_a_limit_of_changes_and_of_bytes():
    encode(TreeChanges(1, 1, [Create("/a")] * MOST_CHANGES))
    with pytest.raises(RecordTooLarge, match="5001 changes of the metadata at once; at most 5000 are possible"):
        encode(TreeChanges(1, 1, [Create("/a")] * (MOST_CHANGES + 1)))
    with pytest.raises(RecordTooLarge, match="bytes of metadata changes at once; at most 4194304"):
        encode(TreeChanges(1, 1, [Create("/a", bytes(MOST_BYTES))]))
