"""What other brokers got wrong, one test each, on one broker in this process with raw requests.

Elsewhere: two consumers that join at once both get partitions (test_clients.py); lengths and counts are checked before
anything is allocated, decompression is bounded (tests/fuzz). All of it is also compared with Kafka (test_differential.py).
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.compatibility.differential.batches import EPOCH_2023, WELL, batch
from tests.compatibility.differential.group_requests import commit, fetch_groups, join
from tests.compatibility.differential.groups_script import await_coordinator
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import CLOSED, SILENT, Connection
from tests.waiting import wait_for
from tidelog.errors import ErrorCode
from tidelog.testing import Cluster

LARGE = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**30}
names = (f"trap-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def side():
    with Cluster(brokers=1) as running:
        one = Side("traps", running.brokers[0].port)
        await_coordinator(one, "g")
        yield one
        one.close()


def produce(side, topic, records, *, acks=-1):
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    answer = side.quiet("Produce", 12, acks=acks, timeout_ms=5000, topic_data=data).responses[0].partition_responses[0]
    return answer.base_offset if answer.error_code == 0 else ErrorCode(answer.error_code).name


def fetch(side, topic, offset, **limits):
    place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": limits.pop("partition_max_bytes", 2**20)}
    asked = {**LARGE, **limits, "topics": [{"topic": topic, "partitions": [place]}]}
    return side.quiet("Fetch", 12, **asked).responses[0].partitions[0]


def log_end(side, topic):
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    return side.quiet("ListOffsets", 7, replica_id=-1, topics=wanted).topics[0].partitions[0].offset


@pytest.fixture
def topic(side):
    name = next(names)
    side.topic(name, 1, retention_ms="-1")
    return name


def test_api_versions_of_an_unknown_version_is_answered_in_version_0(side):
    side.raw("v99", b"\0\0\0\x0e\0\x12\0\x63\0\0\0\x07\xff\xff\0\0\0\0")
    _, answer = side.answers.pop()
    assert answer[:6] == b"\0\0\0\x07\0\x23"
    assert answer[6:16] == b"\0\0\0\x01\0\x12\0\0\0\x04"


def test_answers_leave_in_the_order_of_requests(side, topic):
    with closing(Connection(side.port)) as connection:
        place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        wanted = [{"topic": topic, "partitions": [place]}]
        connection.send("Fetch", 12, max_wait_ms=300, min_bytes=1, max_bytes=1000, topics=wanted)
        connection.send("Metadata", 12, topics=[])
        assert connection.receive().responses[0].partitions[0].error_code == 0
        assert connection.receive().brokers


def test_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(side, topic):
    produce(side, topic, batch(*WELL))
    assert bytes(fetch(side, topic, 2).records)[:8] == bytes(8)


def test_the_first_batch_is_returned_even_if_it_exceeds_the_limits(side, topic):
    large = batch(b"x" * 5000)
    produce(side, topic, large)
    assert len(fetch(side, topic, 0, partition_max_bytes=1, max_bytes=1).records) == len(large)


def test_acks_0_gets_no_answer_and_an_error_closes_the_connection(side, topic):
    def values(records):
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        return {"acks": 0, "timeout_ms": 1000, "topic_data": data}

    with closing(Connection(side.port)) as connection:
        assert connection.unanswered("Produce", 12, **values(batch(b"v"))) == SILENT
        assert connection.ask("Produce", 12, **values(b"\0" * 80)) == CLOSED


def test_more_than_one_batch_is_invalid_and_nothing_is_written(side, topic):
    assert produce(side, topic, batch(b"1") + batch(b"2")) == "INVALID_RECORD"
    assert log_end(side, topic) == 0


def test_a_batch_above_max_message_bytes_is_too_large(side):
    name = next(names)
    side.topic(name, 1, max_message_bytes="200")
    assert produce(side, name, batch(b"x" * 200)) == "MESSAGE_TOO_LARGE"
    assert produce(side, name, batch(b"x" * 100)) == 0


def test_a_record_without_key_is_invalid_on_a_compacted_topic(side):
    name = next(names)
    side.topic(name, 1, cleanup_policy="compact")
    assert produce(side, name, batch((b"k", b"v"), (None, b"v"))) == "INVALID_RECORD"
    assert log_end(side, name) == 0


def test_a_rejected_idempotent_batch_does_not_advance_the_sequence(side, topic):
    def send(sequence):
        return produce(side, topic, batch(b"v", producer_id=77, producer_epoch=0, base_sequence=sequence))

    assert [send(0), send(2), send(2), send(1), send(1), send(2)] == [
        0, "OUT_OF_ORDER_SEQUENCE_NUMBER", "OUT_OF_ORDER_SEQUENCE_NUMBER", 1, 1, 2,
    ]  # fmt: skip


def test_list_offsets_by_timestamp_without_a_match(side, topic):
    produce(side, topic, batch(b"v"))
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": EPOCH_2023 + 1}]}]
    found = side.quiet("ListOffsets", 7, replica_id=-1, topics=wanted).topics[0].partitions[0]
    assert (found.timestamp, found.offset, found.error_code) == (-1, -1, 0)


def test_a_fetch_below_the_log_start_or_far_beyond_is_refused_at_once(side, topic):
    produce(side, topic, batch(*WELL))
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}]
    side.quiet("DeleteRecords", 2, timeout_ms=5000, topics=wanted)
    for offset in (1, 2**63 - 1):
        assert fetch(side, topic, offset, max_wait_ms=60_000).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_unknown_topic_is_answered_at_once_and_its_id_echoed(side):
    unknown = b"nobody's topicid"
    asked = {**LARGE, "max_wait_ms": 60_000}
    by_id = side.quiet("Fetch", 13, **asked, topics=[{"topic_id": unknown, "partitions": [{"partition": 0}]}])
    assert by_id.responses[0].topic_id == unknown
    assert by_id.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    by_name = side.quiet("Fetch", 12, **asked, topics=[{"topic": "nowhere", "partitions": [{"partition": 0}]}])
    assert by_name.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_metadata_of_an_offset_comes_back(side, topic):
    ids = {topic: bytes(16)}
    side.quiet("OffsetCommit", 9, **commit(ids, "noted", {topic: {0: 5}}, metadata="näher: {}"))
    found = side.quiet("OffsetFetch", 9, **fetch_groups(ids, {"noted": {topic: [0]}})).groups[0].topics[0].partitions[0]
    assert (found.committed_offset, found.metadata) == (5, "näher: {}")


def test_a_group_with_members_is_not_deleted(side):
    member = side.quiet("JoinGroup", 9, **join("alive")).member_id
    side.quiet("JoinGroup", 9, **join("alive", member))
    deleted = side.quiet("DeleteGroups", 2, groups_names=["alive"]).results[0]
    assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP


def test_groups_of_odd_names_stay_apart(side, topic):
    ids = {topic: bytes(16)}
    odd = ("/", "", ".", "..", "a/b", "a%2Fb", "a")
    for number, group in enumerate(odd):
        side.quiet("OffsetCommit", 9, **commit(ids, group, {topic: {0: number}}))
    found = side.quiet("OffsetFetch", 9, **fetch_groups(ids, {group: {topic: [0]} for group in odd})).groups
    assert {each.group_id: each.topics[0].partitions[0].committed_offset for each in found} == {
        group: number for number, group in enumerate(odd)
    }


@pytest.mark.parametrize("copies", [0, -2, 2])
def test_replication_factors_that_cannot_be(side, copies):
    topic = {"name": next(names), "num_partitions": 1, "replication_factor": copies}
    answer = side.quiet("CreateTopics", 7, topics=[topic], timeout_ms=5000).topics[0]
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_producer_ids_asked_for_at_once_are_all_different(side):
    def ask(_):
        with closing(Connection(side.port)) as connection:
            for _ in range(100):
                connection.send("InitProducerId", 5, transactional_id=None, transaction_timeout_ms=1)
            return [connection.receive().producer_id for _ in range(100)]

    with ThreadPoolExecutor(8) as pool:
        given = [number for numbers in pool.map(ask, range(8)) for number in numbers]
    assert len(set(given)) == 800
    assert min(given) >= 0


def test_create_partitions_and_delete_topics_answer_per_topic(side, topic):
    counts = {topic: 2, "nowhere": 2, topic + "-": 0}
    asked = [{"name": name, "count": count, "assignments": None} for name, count in counts.items()]
    grown = side.quiet("CreatePartitions", 3, topics=asked, timeout_ms=5000)
    codes = {each.name: ErrorCode(each.error_code).name for each in grown.results}
    assert codes == {
        topic: "NONE", "nowhere": "UNKNOWN_TOPIC_OR_PARTITION", topic + "-": "UNKNOWN_TOPIC_OR_PARTITION",
    }  # fmt: skip
    deleted = side.quiet("DeleteTopics", 6, topics=[{"name": "nowhere"}, {"name": topic}], timeout_ms=5000)
    codes = {each.name: ErrorCode(each.error_code).name for each in deleted.responses}
    assert codes == {"nowhere": "UNKNOWN_TOPIC_OR_PARTITION", topic: "NONE"}


def configs(side, topic):
    asked = [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]
    found = side.quiet("DescribeConfigs", 4, resources=asked, include_synonyms=True, include_documentation=True)
    return {each.name: each for each in found.results[0].configs}


def test_describe_configs_gives_every_option_with_default_source_and_documentation(side, topic):
    found = configs(side, topic)
    assert len(found) > 30
    assert all(each.documentation for each in found.values())
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("-1", 1)
    assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("1073741824", 5)


def test_lists_are_appended_to_and_subtracted_from(side, topic):
    def change(operation, value):
        option = {"name": "cleanup.policy", "config_operation": operation, "value": value}
        resource = {"resource_type": 2, "resource_name": topic, "configs": [option]}
        assert side.quiet("IncrementalAlterConfigs", 1, resources=[resource]).responses[0].error_code == 0

    def shown():
        return configs(side, topic)["cleanup.policy"].value

    change(2, "compact")
    wait_for(lambda: shown() == "delete,compact", "the longer list")
    change(3, "delete")
    wait_for(lambda: shown() == "compact", "the shorter list")


def test_asking_for_metadata_makes_a_topic(side):
    name = next(names)
    asked = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    assert side.quiet("Metadata", 12, **asked).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    side.await_leaders(name)
    assert produce(side, name, batch(b"v")) == 0


class FetchSession:
    """A consumer's incremental fetch session over partitions of one topic (KIP-227)."""

    def __init__(self, side, topic, topic_id, partitions, **limits):
        self._side = side
        self._asked = {**LARGE, **limits}
        self._place = {"topic": topic, "topic_id": topic_id}
        opened = self.fetch(dict.fromkeys(range(partitions), 0), session=0, epoch=0)
        self._number, self._epoch = opened.session_id, 0
        self.first = self.offsets(opened)

    def fetch(self, moved, *, session, epoch):
        places = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 2**20}
            for index, offset in moved.items()
        ]
        topics = [{**self._place, "partitions": places}] if places else []
        return self._side.quiet("Fetch", 13, **self._asked, session_id=session, session_epoch=epoch, topics=topics)

    def next(self, moved=None):
        """The first offset of each partition that was answered with records; `moved`: where the consumer is now."""
        self._epoch += 1
        return self.offsets(self.fetch(moved or {}, session=self._number, epoch=self._epoch))

    @staticmethod
    def offsets(answer):
        assert answer.error_code == 0
        found = [each for topic in answer.responses for each in topic.partitions if each.records]
        return {each.partition_index: int.from_bytes(bytes(each.records[:8])) for each in found}


def test_a_session_answers_again_from_where_its_consumer_still_is(side, topic):
    """A consumer that seeks back to where the session has it does not say so."""
    produce(side, topic, batch(*WELL))
    ids = side.quiet("Metadata", 12, topics=[{"name": topic}]).topics[0].topic_id
    session = FetchSession(side, topic, ids, 1)
    assert session.first == {0: 0}
    assert session.next() == {0: 0}
    assert session.next({0: 3}) == {}
    assert session.next({0: 0}) == {0: 0}


def test_a_partition_with_many_records_does_not_starve_the_others_of_a_session(side):
    name = next(names)
    topic_id = side.topic(name, 3, retention_ms="-1")
    for index in range(3):
        for _ in range(4):
            data = [{"topic_id": topic_id, "partition_data": [{"index": index, "records": batch(b"x" * 1000)}]}]
            side.quiet("Produce", 13, acks=-1, timeout_ms=5000, topic_data=data)
    session = FetchSession(side, name, topic_id, 3, max_bytes=1000)
    seen = [session.first]
    while len(seen) < 12:
        seen.append(session.next({index: offset + 1 for index, offset in seen[-1].items()}))
    assert all(len(each) == 1 for each in seen)
    assert sorted((index, offset) for each in seen for index, offset in each.items()) == [
        (index, offset) for index in range(3) for offset in range(4)
    ]
    assert {index for each in seen[:3] for index in each} == {0, 1, 2}
