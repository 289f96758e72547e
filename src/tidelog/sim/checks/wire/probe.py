"""Parties that send requests which must be refused; without them I21 and a part of I48 would never be tested.

A `RogueFollower` fetches as a follower from the leader of a partition that is not assigned to it: as a broker of the
cluster if one has no replica and will get none, otherwise as a broker that does not exist. A `RogueController` pushes
with a controller epoch that nobody has. `wire_tap` sees whether they are answered.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.network import End
from tidelog.sim.world import BROKER_PORT, World
from tidelog.wire.codec import encode_request
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataRequest,
)
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

FETCH, VERSION = 1, 15
PAUSE = (200_000, 3_000_000)
NO_BROKER = 1_000
SESSIONLESS = -1
FAKE_EPOCH = 2**31 - 1
"""A controller epoch that no controller will ever have."""
FULL = 2


class RogueClient:
    """A `network.Party`. Each request has its own connection, which stays open until the next request."""

    name = "guest"

    def __init__(self, world: World, ghosts: Ghosts, random: Random) -> None:
        self.world = world
        self.ghosts = ghosts
        self.random = random
        self.requests_sent = 0
        self.stopped = False
        self._frame: bytes = b""
        self._end: End | None = None

    def __repr__(self) -> str:
        return f"<{self.name}, {self.requests_sent} questions>"

    def start(self) -> None:
        if self.stopped:
            return
        self.world.after(self.random.randint(*PAUSE), self.start)
        led = [name for name, state in self.ghosts.states.items() if state.leader >= 0]
        if led:
            self.send_to(self.random.choice(led))

    def send_to(self, name: TopicPartition) -> None:
        """Send a request about a partition that has a leader."""
        raise NotImplementedError

    def send(self, broker: int, key: int, version: int, request: Any) -> None:
        self.requests_sent += 1
        parts = encode_request(key, version, self.requests_sent, self.name, request)
        self._frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        self.world.network.connect(self, self.requests_sent, self.world.hosts[broker].name, BROKER_PORT)

    # network.Party.

    def connected(self, end: End) -> None:
        if self._end is not None:
            self.world.network.close(self._end)
        self._end = end
        self.world.network.send(end, self._frame)

    def connect_failed(self, number: int, reason: str) -> None:
        """The request is not sent."""

    def disconnected(self, end: End) -> None:
        if self._end is end:
            self._end = None

    def arrived(self, end: End, data: bytes) -> None:
        """`WireTap` has seen the response where it was sent."""


class RogueFollower(RogueClient):
    """Fetches as a follower that it is not."""

    def __init__(self, world: World, ghosts: Ghosts, *, moves: bool) -> None:
        super().__init__(world, ghosts, Random(world.seed))
        self.moves = (
            moves  # while partitions move, this broker may become an assigned replica before the request arrives
        )

    def send_to(self, name: TopicPartition) -> None:
        state, assigned = self.ghosts.states[name], self.ghosts.assignments[name]
        hosts = () if self.moves else self.world.hosts
        unassigned = [host.broker_id for host in hosts if host.broker_id not in assigned]
        end = self.ghosts.of(name).true_high_watermark
        partition = FetchPartition(
            partition=name.partition,
            current_leader_epoch=state.leader_epoch,
            fetch_offset=self.random.choice((0, end, end)),
            partition_max_bytes=1_000,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.random.choice(unassigned or [NO_BROKER])),
            session_epoch=SESSIONLESS,
            topics=[FetchTopic(topic_id=self.ghosts.topic_ids[name.topic], partitions=[partition])],
        )
        self.send(state.leader, FETCH, VERSION, request)


class RogueController(RogueClient):
    """Pushes as a controller that nobody elected.

    A broker that accepts its pushes loses its replica, its role or its metadata.
    """

    name = "forger"

    def send_to(self, name: TopicPartition) -> None:
        kinds: list[Callable[[TopicPartition], tuple[int, int, Any]]] = [self._role, self._deletion, self._metadata]
        broker = self.random.choice(self.ghosts.assignments[name])
        self.send(broker, *self.random.choice(kinds)(name))

    def _role(self, name: TopicPartition) -> tuple[int, int, Any]:
        state = self.ghosts.states[name]
        role = LeaderAndIsrPartitionState(
            partition_index=name.partition,
            leader=NO_BROKER,
            leader_epoch=state.leader_epoch + 1,
            isr=[NO_BROKER],
            replicas=list(self.ghosts.assignments[name]),
        )
        topic = LeaderAndIsrTopicState(
            topic_name=name.topic, topic_id=self.ghosts.topic_ids[name.topic], partition_states=[role]
        )
        return (
            4,
            7,
            LeaderAndIsrRequest(controller_id=NO_BROKER, controller_epoch=FAKE_EPOCH, topic_states=[topic]),
        )

    def _deletion(self, name: TopicPartition) -> tuple[int, int, Any]:
        replica = StopReplicaPartitionState(partition_index=name.partition, leader_epoch=-2, delete_partition=True)
        topic = StopReplicaTopicState(
            topic_name=name.topic, partition_states=[replica], topic_id=self.ghosts.topic_ids[name.topic]
        )
        return (
            5,
            4,
            StopReplicaRequest(controller_id=NO_BROKER, controller_epoch=FAKE_EPOCH, topic_states=[topic]),
        )

    def _metadata(self, _: TopicPartition) -> tuple[int, int, Any]:
        return 6, 8, UpdateMetadataRequest(controller_id=NO_BROKER, controller_epoch=FAKE_EPOCH, type=FULL)
