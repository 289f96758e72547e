"""The small files: what is written reads back, Kafka's text is understood, and every malformation names its file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptLog
from tidelog.log import checkpoints
from tidelog.log.checkpoints import MetaProperties
from tidelog.model import TopicPartition, id_text

ID = bytes(range(16))
TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 99)), st.integers(0, 2**63 - 1)))
def test_offsets_read_back(offsets):
    assert checkpoints.read_offsets(checkpoints.format_offsets(offsets.items()), "f") == offsets
    assert checkpoints.read_offsets(b"", "f") == {}


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))))
def test_epochs_read_back(entries):
    assert checkpoints.read_epochs(checkpoints.format_epochs(entries), "f") == entries


def test_the_text_is_kafkas():
    offsets = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    assert checkpoints.format_offsets(offsets.items()) == b"0\n2\nt 0 5\nt 1 7\n"
    assert checkpoints.format_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert checkpoints.format_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.format_partition_metadata(ID) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n", b"0\nx\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0\n", b"0\n1\nt x 5\n", b"\xff"]
)
def test_a_malformed_checkpoint_is_refused_by_name(content):
    with pytest.raises(CorruptLog, match="some/file"):
        checkpoints.read_offsets(content, "some/file")


def test_negative_epochs_are_refused():
    with pytest.raises(CorruptLog, match="'-1' is not a number"):
        checkpoints.read_epochs(b"0\n1\n-1 0\n", "f")


def test_partition_metadata_reads_back_and_refuses_what_it_cannot_be():
    assert checkpoints.read_partition_metadata(checkpoints.format_partition_metadata(ID), "f") == ID
    for content in (b"", b"version: 1\ntopic_id: x", b"version: 0\n", b"version: 0\ntopic_id: short", b"version"):
        with pytest.raises(CorruptLog):
            checkpoints.read_partition_metadata(content, "f")


def test_meta_properties_of_both_versions():
    meta = MetaProperties("cluster", 3, ID)
    assert checkpoints.read_meta_properties(checkpoints.format_meta_properties(meta), "f") == meta
    text = f"#\n#Tue Nov 18 10:00:00 UTC 2026\ncluster.id=c\ndirectory.id={id_text(ID)}\nnode.id=1\nversion=1\n"
    assert checkpoints.read_meta_properties(text.encode(), "f") == MetaProperties("c", 1, ID)
    assert checkpoints.read_meta_properties(b"version=0\nbroker.id=7\ncluster.id=c\n", "f") == MetaProperties("c", 7)
    for content in (
        b"",
        b"version=2",
        b"version=1\nnode.id=1",
        b"version=1\ncluster.id=c",
        b"nonsense",
        b"version=1\ncluster.id=c\nnode.id=x",
        b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x",
    ):
        with pytest.raises(CorruptLog, match=r"^f:"):
            checkpoints.read_meta_properties(content, "f")


def test_a_clean_shutdown_file_may_be_of_any_age():
    assert checkpoints.read_clean_shutdown(checkpoints.format_clean_shutdown(9)) == 9
    for content in (b"", b"{}", b"[]", b"\xff", b'{"version":0,"brokerEpoch":"x"}'):
        assert checkpoints.read_clean_shutdown(content) == -1
