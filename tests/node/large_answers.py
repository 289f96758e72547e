"""A broker whose answers are large: many topics, groups, offsets, transactions, producers, ACLs and options, and the
requests of a few bytes that are answered with all of them.

    .venv/bin/python -m tests.node.large_answers [ENTRIES]

prints the longest turn of each answer, as processor time of this machine.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from tests.node.largest import led
from tests.node.one_broker import CLIENT, TOPIC, OneBroker
from tidelog.api.registry import APIS
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.coordinator.group.classic.group import ClassicMember
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import ConsumerMember, Subscription
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offset_table import Committed
from tidelog.coordinator.transaction.transaction import Transaction
from tidelog.log.producers import Producer
from tidelog.model import TopicPartition
from tidelog.security import scram
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.groups.committed_offsets import OffsetFetchRequestGroup
from tidelog.wire.messages.transactions.transaction_admin import TopicRequest

GROUP = "g"
CLASSIC_GROUP, CONSUMER_GROUP = "classic", "consumer"
PARTITIONS_A_TOPIC = 10


def fill(broker: OneBroker, entries: int) -> None:
    """So many partitions, groups, offsets, transactions, producers, users and quotas."""
    node = broker.node.broker
    _topics(node.image, entries)
    held = node.replicas
    replica = held.get(TOPIC, 0)
    for number in range(entries):
        name = _position(number)
        held._partitions[name] = SimpleNamespace(
            name=name,
            log=replica.log,
            role=replica.role,
            high_watermark=0,
            config=replica.config,
            min_in_sync=replica.min_in_sync,
            folder="/data",
        )
        held._folders[name] = "/data"
        replica.log.producers._producers[number] = Producer(number)
    (groups,) = node.groups.machines()
    groups.shard.high_watermark = 1
    for number in range(entries):
        groups.create_group(f"group-{number}", 0)
        groups.offsets.set(GROUP, _position(number), Committed(number, 0, "", 0, -1, bytes(16)), 0)
    groups.offsets.commit(1)
    _members(groups, entries)
    (transactions,) = node.transactions.machines()
    for number in range(entries):
        transactions.transactions.set(f"txn-{number}", Transaction(f"txn-{number}", number), 0)
    everything = frozenset(map(_position, range(entries)))
    transactions.transactions.set("txn", Transaction("txn", 1, partitions=everything), 0)
    transactions.transactions.commit(1)
    mechanism = scram.BY_NUMBER[1]
    salted = scram.salted(mechanism, "secret", bytes(16), 4096)
    credential = scram.format_credential(scram.credential(mechanism, salted, bytes(16), 4096))
    for number in range(entries):
        node.configs._values[f"users/user-{number}"] = {"SCRAM-SHA-256": credential, "producer_byte_rate": "1"}
        node.configs._values[f"groups/group-{number}"] = {"consumer.session.timeout.ms": "45000"}


def _members(groups: GroupMachine, entries: int) -> None:
    """A group of each protocol with so many members."""
    classic = groups.create_group(CLASSIC_GROUP, 0)
    consumer = groups.consumers.committed[CONSUMER_GROUP] = ConsumerGroup(CONSUMER_GROUP)
    for number in range(entries):
        name = f"member-{number}"
        classic.members[name] = ClassicMember(name, None, "client", "/127.0.0.1", 1000, 1000, "consumer", [])
        consumer.members[name] = ConsumerMember(name, Subscription(topics=frozenset([TOPIC])))


def _position(number: int) -> TopicPartition:
    return TopicPartition(f"topic-{number // PARTITIONS_A_TOPIC}", number % PARTITIONS_A_TOPIC)


def _topics(image: Any, entries: int) -> None:
    for number in range(entries // PARTITIONS_A_TOPIC):
        name, topic_id = f"topic-{number}", (number + 1).to_bytes(16)
        partition = PartitionImage(leader=0, leader_epoch=0, replicas=[0], isr=[0], offline=[])
        image.topics[name] = TopicImage(name, topic_id, dict.fromkeys(range(PARTITIONS_A_TOPIC), partition))
        image.topic_names[topic_id] = name


REQUESTS: dict[str, tuple[int, dict[str, Any], int | None]] = {
    "metadata": (3, {"topics": None}, None),
    "metadata with operations": (3, {"topics": None, "include_topic_authorized_operations": True}, None),
    "offsets of version 7": (9, {"group_id": GROUP, "topics": None}, 7),
    "offsets": (9, {"groups": [OffsetFetchRequestGroup(group_id=GROUP, topics=None)]}, 9),
    "offsets by id": (9, {"groups": [OffsetFetchRequestGroup(group_id=GROUP, topics=None)]}, None),
    "stable offsets": (
        9,
        {"groups": [OffsetFetchRequestGroup(group_id=GROUP, topics=None)], "require_stable": True},
        9,
    ),
    "members": (15, {"groups": [CLASSIC_GROUP]}, None),
    "members of the consumer protocol": (69, {"group_ids": [CONSUMER_GROUP]}, None),
    "groups": (16, {}, None),
    "groups of a state": (16, {"states_filter": ["Stable"]}, None),
    "log folders": (35, {"topics": None}, None),
    "quotas": (48, {"components": []}, None),
    "credentials": (50, {"users": None}, None),
    "producers": (61, {"topics": [TopicRequest(name=TOPIC, partition_indexes=[0])]}, None),
    "a transaction": (65, {"transactional_ids": ["txn"]}, None),
    "transactions": (66, {}, None),
    "transactions of a producer": (66, {"producer_id_filters": [-5]}, None),
    "resources": (74, {"resource_types": []}, None),
    "pages": (75, {"topics": [], "response_partition_limit": 2000}, None),
    "report": (10000, {"since": 0}, None),
}
"""(API key, fields, version or None for the newest), by what is answered."""
FEW = ("groups of a state", "pages", "a transaction", "transactions of a producer", "report")
"""Those with few entries, or of a page."""


def turns(broker: OneBroker, name: str, begin: Callable[[], Callable[[], int]]) -> Iterator[int]:
    """The cost of each input until the request is answered. `begin` starts to measure one and returns what ends it."""
    key, given, version = REQUESTS[name]
    version = APIS[key].high if version is None else version
    number = broker.expects(SCHEMAS[key].request(**given), version)
    parts = codec.encode_request(key, version, number, "test", SCHEMAS[key].request(**given))
    frame = memoryview(bytearray(b"".join(parts)[4:]))
    inputs = [lambda: broker.node.receive(CLIENT, [frame], broker.now)]
    while number not in broker.answers:
        step = inputs.pop() if inputs else lambda: broker.node.wake(broker.now)
        end = begin()
        effects = step()
        yield end()
        broker._carry_out(effects)


def seconds() -> Callable[[], int]:
    begun = time.thread_time_ns()
    return lambda: time.thread_time_ns() - begun


def main(entries: int = 100_000) -> None:
    broker = led()
    watch = time.thread_time_ns
    broker.node.dispatch.large._stopwatch = watch
    fill(broker, entries)
    gc.disable()
    for name in REQUESTS:
        costs = list(turns(broker, name, seconds))
        sys.stdout.write(f"{name:34} {max(costs) / 1e6:6.1f} ms longest of {len(costs)}, {sum(costs) / 1e6:7.1f} ms\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
