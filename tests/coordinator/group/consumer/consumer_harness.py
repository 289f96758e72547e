"""A coordinator with topics, and members of the consumer protocol who do as clients do."""

from dataclasses import dataclass, field

from tests.coordinator.group.harness import GroupHarness
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest


@dataclass(eq=False)
class Topic:
    id: bytes
    partitions: dict[int, None]


class Cluster:
    """Topics are told apart by the first bytes of their ids."""

    def __init__(self, **counts: int):
        self.topics: dict[str, Topic] = {}
        self.topic_names: dict[bytes, str] = {}
        self.made = 0
        self.is_complete = True
        for name, count in counts.items():
            self.make(name, count)

    def make(self, name: str, count: int):
        self.made += 1
        topic = self.topics[name] = Topic(self.made.to_bytes(2, "big") + bytes(14), dict.fromkeys(range(count)))
        self.topic_names[topic.id] = name

    def has_epoch_of(self, office, epoch) -> bool:
        return self.is_complete

    def delete(self, name: str):
        del self.topic_names[self.topics.pop(name).id]

    def id(self, name: str) -> bytes:
        return self.topics[name].id


class ConsumerHarness(GroupHarness):
    """Assignments are computed at once unless a test says otherwise."""

    def __init__(self, options=None, *, cluster=None, **how):
        options = {"group.consumer.assignment.interval.ms": "0", **(options or {})}
        super().__init__(options, cluster=cluster or Cluster(t=4, u=2), **how)

    def change_topics(self, *touched: str):
        self.carry_out(self.coordinator.topics_changed(touched, self.now))

    def beat(self, version=1, client_id="client", **fields) -> ConsumerGroupHeartbeatResponse:
        fields = {"group_id": "g", **fields}
        return self.ask(ConsumerGroupHeartbeatRequest(**fields), version, client_id)

    def described(self, *group_ids: str):
        return self.ask(ConsumerGroupDescribeRequest(group_ids=list(group_ids)), 1).groups

    def state(self, group_id="g") -> str:
        return self.described(group_id)[0].group_state

    def listed(self, states=(), types=()) -> dict[str, tuple[str, str]]:
        answer = self.ask(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), 5)
        return {group.group_id: (group.group_type, group.group_state) for group in answer.groups}

    def consumer_group(self, group_id="g"):
        return self.machine.consumers.newest[group_id]

    def member(self, name: str, **how) -> "SimulatedMember":
        return SimulatedMember(self, name, **how)

    def settle(self, *harness: "SimulatedMember", rounds=12):
        """Everybody beats until nobody learns anything new."""
        for _ in range(rounds):
            before = [(person.epoch, frozenset(person.owned)) for person in harness]
            for person in harness:
                person.beat()
            if before == [(person.epoch, frozenset(person.owned)) for person in harness]:
                return
        raise AssertionError("they do not come to rest")


@dataclass(eq=False)
class SimulatedMember:
    """One consumer. It takes what it is given at once, and gives up at once unless it is `stubborn`."""

    harness: ConsumerHarness
    name: str
    topics: tuple[str, ...] | None = ("t",)
    pattern: str | None = None
    instance: str | None = None
    assignor: str | None = None
    group: str = "g"
    rebalance_timeout_ms: int = 60_000
    stubborn: bool = False
    epoch: int = 0
    owned: set = field(default_factory=set)
    told: set | None = None
    says_all: bool = False
    last: ConsumerGroupHeartbeatResponse | None = None

    def beat(self, **fields) -> ConsumerGroupHeartbeatResponse:
        answer = self.harness.beat(**self.request(**fields))
        self.learn(answer)
        return answer

    def request(self, **fields) -> dict:
        """A full request to join, or after an answer that never came or was an error; else one that says what it has."""
        said = {
            "group_id": self.group,
            "member_id": self.name,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        if self.epoch == 0:
            self.owned, self.told = set(), None
        if self.epoch == 0 or self.says_all:
            self.says_all = False
            said |= {
                "rebalance_timeout_ms": self.rebalance_timeout_ms,
                "subscribed_topic_names": None if self.topics is None else list(self.topics),
                "subscribed_topic_regex": self.pattern,
                "server_assignor": self.assignor,
            }
        said["topic_partitions"] = self.in_message()
        return said | fields

    def idle(self) -> ConsumerGroupHeartbeatResponse:
        """As clients beat when there is nothing to say."""
        return self.beat(topic_partitions=None)

    def join(self, **fields) -> "SimulatedMember":
        answer = self.beat(**fields)
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
        return self

    def subscribe(self, *topics: str, pattern: str | None = None):
        """Say it at once, with all that a full request has."""
        self.topics, self.pattern = topics, pattern
        return self.beat(
            subscribed_topic_names=list(topics),
            subscribed_topic_regex=pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        )

    def leave(self, epoch=-1):
        return self.harness.beat(
            group_id=self.group, member_id=self.name, member_epoch=epoch, instance_id=self.instance
        )

    def learn(self, answer: ConsumerGroupHeartbeatResponse):
        self.last = answer
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned, self.told = 0, set(), None
        if answer.error_code:
            self.says_all = True
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = {(t.topic_id, p) for t in answer.assignment.topic_partitions for p in t.partitions}
            self.owned = self.owned | self.told if self.stubborn else set(self.told)

    def give_up(self):
        """What a stubborn one does in the end."""
        self.owned = self.owned if self.told is None else set(self.told)

    def in_message(self) -> list[TopicPartitions]:
        topics: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            topics.setdefault(topic_id, []).append(partition)
        return [TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]

    @property
    def has(self) -> set[tuple[str, int]]:
        """By the names of topics."""
        return {(self.harness.cluster.topic_names.get(topic_id, "?"), partition) for topic_id, partition in self.owned}

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.last.error_code)
