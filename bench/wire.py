"""A blocking client with Tidelog's own codec: what the rows need beside their load makers."""

import socket
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Self

from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages.cluster.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from tidelog.wire.records import Record, build

PRODUCE, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS = 0, 2, 3, 19, 20, 44
FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 10, 11, 12, 14
CREATE_ACLS, DESCRIBE_QUORUM = 30, 55
VERSIONS = {
    PRODUCE: 9, LIST_OFFSETS: 6, METADATA: 9, CREATE_TOPICS: 5, DELETE_TOPICS: 4, ALTER_CONFIGS: 1,
    FIND_COORDINATOR: 3, JOIN_GROUP: 7, HEARTBEAT: 4, SYNC_GROUP: 5,
    CREATE_ACLS: 3, DESCRIBE_QUORUM: 1,
}  # fmt: skip
METADATA_TOPIC = "__cluster_metadata"
TOPIC_RESOURCE = 2
CLIENT = "bench"
POLL_S = 0.005
LATEST = -1


Configs = Mapping[str, str]


class NotYet(Exception):
    """The cluster cannot do that yet."""


class Client:
    """One connection; requests one after the other. OSError where the broker is not there."""

    def __init__(self, port: int, timeout_s: float = 60.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, key: int, request: Any) -> Any:
        self.socket.sendall(frame(key, request))
        return self.answer(key)

    def send(self, key: int, request: Any) -> None:
        self.socket.sendall(frame(key, request))

    def answer(self, key: int) -> Any:
        data = self._read(int.from_bytes(self._read(4)))
        return decode_response(key, VERSIONS[key], memoryview(data))[1]

    def _read(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise ConnectionResetError("closed within an answer")
            view = view[got:]
        return data


def frame(key: int, request: Any) -> bytes:
    return b"".join(bytes(part) for part in encode_request(key, VERSIONS[key], 1, CLIENT, request))  # type: ignore[arg-type]


def one_record(topic: str, partitions: list[int], acks: int, size: int = 100) -> ProduceRequest:
    """One record for each of the partitions."""
    return records_for(topic, partitions, acks, size, 1)


def records_for(topic: str, partitions: list[int], acks: int, size: int, number: int) -> ProduceRequest:
    """A batch of so many records for each of the partitions."""
    now = int(time.time() * 1000)
    batch = build([Record(offset=at, timestamp=now, key=None, value=b"x" * size, headers=()) for at in range(number)])
    data = [PartitionProduceData(index=partition, records=batch) for partition in partitions]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def create(port: int, topic: str, partitions: int, replication: int, configs: Configs | None = None) -> None:
    """Ask for a topic; NotYet where the cluster cannot."""
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication)
    wanted.configs = [CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
    with Client(port) as client:
        (result,) = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)).topics
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise NotYet(f"{topic}: {ErrorCode(result.error_code).name} {result.error_message}")


def delete(port: int, topic: str) -> None:
    with Client(port) as client:
        client.call(DELETE_TOPICS, DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000))


def configure(port: int, topic: str, configs: Configs) -> None:
    """Set options of a topic."""
    wanted = [AlterableConfig(name=name, value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=wanted)
    with Client(port) as client:
        (result,) = client.call(ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource])).responses
    if result.error_code:
        raise RuntimeError(f"{topic}: {ErrorCode(result.error_code).name} {result.error_message}")


def leaders(port: int, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """(partition → leading broker, broker → port); NotYet where a partition has no leader."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with Client(port) as client:
        answer = client.call(METADATA, request)
    (found,) = answer.topics
    ports = {broker.node_id: broker.port for broker in answer.brokers}
    led = {each.partition_index: each.leader_id for each in found.partitions}
    if found.error_code or not led or any(leader not in ports for leader in led.values()):
        raise NotYet(f"{topic} has no leader yet")
    return led, ports


def active_controller(port: int) -> int:
    """The leader of the metadata quorum; NotYet while there is none."""
    wanted = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    with Client(port) as client:
        answer = client.call(DESCRIBE_QUORUM, DescribeQuorumRequest(topics=[wanted]))
    leader: int = answer.topics[0].partitions[0].leader_id if answer.topics else -1
    if leader < 0:
        raise NotYet("the metadata quorum has no leader")
    return leader


def patiently(action: Any, *arguments: Any, within_s: float = 120.0) -> Any:
    """Try until it works, every few milliseconds."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return action(*arguments)
        except (NotYet, OSError, ProtocolViolation):
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def fresh_topic(port: int, topic: str, partitions: int, replication: int, configs: Configs | None = None) -> None:
    """Create it, and wait until it is led."""
    patiently(create, port, topic, partitions, replication, configs)
    led, _ = patiently(leaders, port, topic)
    while len(led) < partitions:
        time.sleep(POLL_S)
        led, _ = patiently(leaders, port, topic)


def produce_to_all(port: int, topic: str, acks: int, avoid: int = -1) -> None:
    """One record to every partition, at its leader; NotYet where one refuses or is still led by broker `avoid`."""
    led, ports = leaders(port, topic)
    if avoid in led.values():
        raise NotYet("not all have moved")
    by_leader: dict[int, list[int]] = defaultdict(list)
    for partition, leader in led.items():
        by_leader[leader].append(partition)
    for leader, partitions in by_leader.items():
        with Client(ports[leader]) as client:
            answer = client.call(PRODUCE, one_record(topic, partitions, acks))
        if any(each.error_code for found in answer.responses for each in found.partition_responses):
            raise NotYet("a partition refuses")


def find_coordinator(port: int, group: str) -> None:
    """NotYet while there is none."""
    with Client(port) as client:
        code = client.call(FIND_COORDINATOR, FindCoordinatorRequest(key=group)).error_code
    if code:
        raise NotYet(f"{group}: {ErrorCode(code).name}")


def end_offsets(port: int, topic: str) -> int:
    """The log end offsets of all partitions in sum."""
    led, ports = leaders(port, topic)
    total = 0
    for partition, leader in led.items():
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
        )
        with Client(ports[leader]) as client:
            answer = client.call(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=[wanted]))
        total += answer.topics[0].partitions[0].offset
    return total
