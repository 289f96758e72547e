"""Who asks for what nobody may have: without such a guest, I21 would never be put to the test.

It fetches as a follower from the leader of a partition that is not assigned to it: as a broker of the cluster where one
has no replica and will have none, else as one that does not exist. Whether it is answered is for `overheard` to see.
"""

from random import Random

from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.network import End
from tidelog.sim.world import BROKER_PORT, World
from tidelog.wire.codec import encode_request
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

FETCH, VERSION = 1, 15
PAUSE = (200_000, 3_000_000)
NOBODY = 1_000
SESSIONLESS = -1


class Probe:
    """A `network.Party`. Each fetch has a connection of its own, which it leaves open until the next one."""

    def __init__(self, world: World, ghosts: Ghosts, *, moves: bool) -> None:
        self.world = world
        self.ghosts = ghosts
        self.moves = moves  # while it is under way, a question may become one that an assigned replica may ask
        self.name = "guest"
        self.random = Random(world.seed)
        self.asked = 0
        self.stopped = False
        self._wish: bytes = b""
        self._end: End | None = None

    def __repr__(self) -> str:
        return f"<probe, {self.asked} questions>"

    def start(self) -> None:
        if self.stopped:
            return
        self.world.after(self.random.randint(*PAUSE), self.start)
        led = [name for name, state in self.ghosts.states.items() if state.leader >= 0]
        if led:
            self.ask(self.random.choice(led))

    def ask(self, name: TopicPartition) -> None:
        state, assigned = self.ghosts.states[name], self.ghosts.assignments[name]
        hosts = () if self.moves else self.world.hosts
        strangers = [host.broker_id for host in hosts if host.broker_id not in assigned]
        end = self.ghosts.of(name).true_high_watermark
        wanted = FetchPartition(
            partition=name.partition,
            current_leader_epoch=state.leader_epoch,
            fetch_offset=self.random.choice((0, end, end)),
            partition_max_bytes=1_000,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.random.choice(strangers or [NOBODY])),
            session_epoch=SESSIONLESS,
            topics=[FetchTopic(topic_id=self.ghosts.topic_ids[name.topic], partitions=[wanted])],
        )
        self.asked += 1
        parts = encode_request(FETCH, VERSION, self.asked, self.name, request)
        self._wish = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        self.world.network.connect(self, self.asked, self.world.hosts[state.leader].name, BROKER_PORT)

    # network.Party.

    def connected(self, end: End) -> None:
        if self._end is not None:
            self.world.network.close(self._end)
        self._end = end
        self.world.network.send(end, self._wish)

    def connect_failed(self, number: int, reason: str) -> None:
        """Then not."""

    def disconnected(self, end: End) -> None:
        if self._end is end:
            self._end = None

    def arrived(self, end: End, data: bytes) -> None:
        """The answer was looked at where it was given."""
