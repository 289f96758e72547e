"""What the declared classes can do, and that the table of APIs is what kio, and so Kafka, says."""

import copy
import pickle
import subprocess
import sys

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from tidelog.model import NO_ID
from tidelog.wire.message import ALL, NEVER, Versions, fields, key_of, replace, versions_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.groups.group_records import GroupMetadataKey, OffsetCommitKey
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, ReplicaState
from tidelog.wire.messages.records.produce import PartitionProduceResponse

BETWEEN_BROKERS = {4: 7, 5: 4, 6: 8, 7: 3}
OURS = {10000, 10001}


def test_every_field_has_kafkas_default():
    request = FetchRequest()
    assert (request.max_bytes, request.session_epoch, request.cluster_id) == (2147483647, -1, None)
    assert request.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert request.topics == []
    assert PartitionProduceResponse().log_append_time_ms == -1
    assert FetchPartition().replica_directory_id == NO_ID


def test_defaults_are_not_shared():
    first, second = FetchRequest(), FetchRequest()
    first.topics.append("x")
    first.replica_state.replica_id = 5
    assert second == FetchRequest()


def test_a_message_is_plain_data():
    partition = FetchPartition(partition=3, fetch_offset=9)
    assert partition == copy.deepcopy(partition) == pickle.loads(pickle.dumps(partition))
    assert partition != FetchPartition(partition=4, fetch_offset=9)
    assert partition != ReplicaState()
    assert "partition=3, current_leader_epoch=-1, fetch_offset=9" in repr(partition)
    assert replace(partition, fetch_offset=10) == FetchPartition(partition=3, fetch_offset=10)
    with pytest.raises(AttributeError):
        partition.fetch_ofset = 5
    with pytest.raises(TypeError):
        FetchPartition(fetch_ofset=5)
    with pytest.raises(TypeError):
        hash(partition)


def test_fields_have_their_versions():
    by_name = {field.name: field for field in fields(FetchPartition)}
    assert versions_of(by_name["current_leader_epoch"].versions) == Versions(9, ALL.high)
    assert by_name["high_watermark"].tag == 1
    assert by_name["high_watermark"].default == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("0+", [0, 32767], [-1]), ("2-4", [2, 3, 4], [1, 5]), ("3", [3], [2, 4]), (None, [], [0, 1, 2])],
)
def test_versions_in_kafkas_notation(text, inside, outside):
    found = versions_of(text)
    assert all(version in found for version in inside)
    assert not any(version in found for version in outside)
    assert (found == NEVER) == (text is None)


def test_keys_of_internal_topics_say_their_record_type():
    assert key_of(OffsetCommitKey(group="g")) == 1
    assert key_of(GroupMetadataKey) == 2


@pytest.mark.parametrize("key", sorted(set(SCHEMAS) - set(BETWEEN_BROKERS) - OURS))
def test_the_versions_are_kios(key):
    schema = SCHEMAS[key]
    known = schema_name_map[api_key_map[key]]
    requests = [version for version, types in known.items() if EntityType.request in types]
    expected = [version for version in requests if (key, version) != (22, 6)]  # InitProducerId 6 is unstable
    assert (schema.min_version, schema.max_version) == (min(expected), max(expected))
    assert key_of(schema.request) == key_of(schema.response) == schema.key == key
    assert schema.request.__name__ == f"{schema.name}Request"


def test_brokers_speak_one_version_of_the_old_controllers_requests():
    for key, version in BETWEEN_BROKERS.items():
        assert (SCHEMAS[key].min_version, SCHEMAS[key].max_version) == (version, version)
        assert SCHEMAS[key].is_flexible(version)


def test_importing_the_codec_imports_no_message():
    script = (
        "import sys, tidelog.wire.codec, tidelog.wire.messages as m; m.SCHEMAS[1].max_version;"
        "print([n for n in sys.modules if n.startswith('tidelog.wire.messages.')])"
    )
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"
