"""A transaction coordinator that is replaced without knowing it, and an old producer that returns to it.

Exactly when a transaction of such a producer is committed, and complete in sync, its coordinator is cut off from the
other brokers and the store, and its session expires. Clients still reach it. The producer begins its next transaction
at the successor, and loses its connections to all others when it requests the end: the broker that it can reach
believes that it is the coordinator, and remembers the previous transaction with the same producer epoch. It must not
answer from memory. Only commits matter: a transaction that is believed aborted ends so, too.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import Struct

from tidelog.client.transactional import OLDER
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.transaction.transaction import TransactionState
from tidelog.effects import Event
from tidelog.model import TRANSACTION_TOPIC, TopicPartition
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.strike import Kind, Strike, Trigger, same_life
from tidelog.sim.network import End, Link
from tidelog.wire.codec import decode_request

ADD_PARTITIONS, END = 24, 26
PREFIX = 4
"""Bytes of the length before each frame."""

_INT16, _INT32 = Struct(">h"), Struct(">i")
DECIDED, COMPLETE = TransactionState.PREPARE_COMMIT.value, TransactionState.COMPLETE_COMMIT.value

SLOW = 0.7
"""How often clients' requests do not reach the old coordinator at first: a transaction that it learns of replaces the
one that it remembers.
"""

RETURNS = 0.7
"""How often it registers again, while others cannot notify it that it was replaced: the metadata name it again then.

"""

LASTS = (6 * SECOND, 12 * SECOND, 20 * SECOND)
POLL = 10 * MILLI
NEEDS: Mapping[str, Sequence[str]] = {"stale_coordinator": ("transactions", "old-producers")}


def stale_coordinator(strike: Strike) -> None:
    """Inject the fault, one at a time: it requires a coordinator that is not cut off, and successors."""
    if any(isinstance(each, CommitDecided | Detour) for each in strike.world.witnesses):
        return
    trigger = CommitDecided(strike)
    strike.arm(trigger)
    strike.world.witnesses.append(trigger)
    strike.later(10 * SECOND, trigger.leave)


class RequestWitness:
    """A `world.Witness` that observes only requests that add partitions to a transaction or end it."""

    def starting(self, host: Host) -> None:
        """Nothing is known about the life yet."""

    def sent(self, host: Host, end: End, data: bytes) -> None:
        """Responses do not matter."""

    def received(self, host: Host, end: End, frames: Sequence[memoryview]) -> None:
        for frame in frames if end.listener else ():
            key = _INT16.unpack_from(frame)[0]
            if key in (ADD_PARTITIONS, END):
                self.requested(host, end, key, frame)

    def requested(self, host: Host, end: End, key: int, frame: memoryview) -> None:
        """A client requests that a transaction grows, or ends."""


class CommitDecided(Trigger, RequestWitness):
    """Wait until a transaction of an old producer is to be committed.

    `clients` are the coordinator and the client of a transactional ID, as of its last EndTxn request.
    """

    def __init__(self, strike: Strike) -> None:
        super().__init__(strike)
        self.clients: dict[str, tuple[Host, str]] = {}

    def requested(self, host: Host, end: End, key: int, frame: memoryview) -> None:
        if key == END:
            head, request = decode_request(frame)
            if head.api_version <= OLDER.end:
                self.clients[request.transactional_id] = host, end.other.party.name

    def happened(self, host: Host, event: Event) -> None:
        if event.kind == "transaction.state" and event.fields["state"] == DECIDED:
            transactional_id = str(event.fields["transactional_id"])
            coordinator, client = self.clients.get(transactional_id, (None, ""))
            name = self.partition(transactional_id)
            if coordinator is host and self.has_successor(name):
                self.strike.nemesis.disarm(self)
                self.leave()
                Detour(self.strike, host, transactional_id, name, client).begin()

    def partition(self, transactional_id: str) -> TopicPartition:
        count = sum(name.topic == TRANSACTION_TOPIC for name in self.strike.atlas.ghosts.assignments)
        return TopicPartition(TRANSACTION_TOPIC, partition_for(transactional_id, count))

    def has_successor(self, name: TopicPartition) -> bool:
        ghosts, hosts = self.strike.atlas.ghosts, self.strike.world.hosts
        return sum(hosts[broker].running for broker in ghosts.states[name].isr) > 1

    def leave(self) -> None:
        if self in self.strike.world.witnesses:
            self.strike.world.witnesses.remove(self)


class Detour(Trigger, RequestWitness):
    """Move one client from its coordinator to the successor and back.

    `adds` is the end on which it last added partitions at the successor; what it sends behind them is held.
    """

    def __init__(self, strike: Strike, host: Host, transactional_id: str, name: TopicPartition, client: str) -> None:
        super().__init__(strike)
        self.world = strike.world
        self.network = strike.world.network
        self.host = host
        self.transactional_id = transactional_id
        self.name = name
        self.client = client
        self.lasts = strike.random.choice(LASTS)
        self.slow = strike.random.random() < SLOW
        self.returns = strike.random.random() < RETURNS
        self.adds: End | None = None
        self.is_complete = False
        self.is_returning = self.has_returned = False
        self.over = False
        self.still = same_life(host)

    def begin(self) -> None:
        """Wait until what the coordinator has just written is in sync, and cut it off: responses wait for that."""
        self.world.witnesses.append(self)
        self.strike.arm(self, self.lasts)
        self.strike.later(self.lasts, self.end)
        if self.slow:
            for client in {link.opener.party.name for link in self.network.links} - self.brokers():
                self.network.block(client, self.host.name)
        self.when(self.is_in_sync, self.cut_off)

    def end(self) -> None:
        """Undo everything; the broker learns a little later that its session expired."""
        self.over = True
        self.world.witnesses.remove(self)
        if self.adds is not None:
            self.network.unhold(self.adds)
        self.network.heal()

    def when(self, condition: Callable[[], bool], then: Callable[[], None]) -> None:
        """Poll the condition while the fault lasts, then continue."""
        if self.over or self.strike.nemesis.over or not self.still():
            return
        if condition():
            then()
        else:
            self.strike.later(POLL, partial(self.when, condition, then))

    def brokers(self) -> set[str]:
        return {host.name for host in self.world.hosts}

    # The coordinator is replaced.

    def happened(self, host: Host, event: Event) -> None:
        if host is self.host and event.kind == "transaction.state":
            same = event.fields["transactional_id"] == self.transactional_id
            self.is_complete |= same and event.fields["state"] == COMPLETE

    def is_in_sync(self) -> bool:
        if not self.is_complete:
            return False
        replica = self.strike.nemesis.cluster.suite.replicas.get((self.host.broker_id, self.name))
        return replica is not None and replica.partition.high_watermark == replica.partition.log.log_end_offset

    def cut_off(self) -> None:
        self.world.count("coordinator cut off")
        self.network.isolate(self.host.name, sorted(self.brokers()))
        if self.returns:
            self.world.lose_session(self.host)
        else:
            self.host.trouble.silent_until = self.world.micros + self.lasts
            self.world.lose_session(self.host, notice_delay=self.lasts)
        self.when(self.is_replaced, self.await_next_transaction)

    def is_replaced(self) -> bool:
        return self.strike.atlas.ghosts.states[self.name].leader not in (-1, self.host.broker_id)

    # The client goes to the successor.

    def await_next_transaction(self) -> None:
        """Wait for the first request of the next transaction: if it does not arrive, reset the client's connections, so
        that it tries others.
        """
        self.when(self.has_held_add if self.slow else self.has_added, self.reach_successor)

    def has_held_add(self) -> bool:
        ends = [link.opener for link in self.links() if link.acceptor.party.name == self.host.name]
        frames = [frame for frame in map(held_frame, ends) if frame]
        return any(_INT16.unpack_from(frame)[0] == ADD_PARTITIONS for frame in frames)

    def has_added(self) -> bool:
        return self.adds is not None

    def reach_successor(self) -> None:
        if self.slow:
            self.reset_links(to_old=True)
        self.when(self.has_held_end, self.return_to_old)

    def requested(self, host: Host, end: End, key: int, frame: memoryview) -> None:
        if end.other.party.name != self.client:
            return
        if key == ADD_PARTITIONS and host is not self.host:
            self.adds = end.other
            self.network.hold(end.other)
        elif key == END and host is self.host and self.is_returning and not self.has_returned:
            self.has_returned = True
            self.world.count("end asked of a replaced coordinator")
            for other in self.brokers() - {self.host.name}:
                self.network.refused.discard((self.client, other))

    # And back.

    def has_held_end(self) -> bool:
        """Whether the client's EndTxn request is held.

        If it adds more partitions first, let them pass; the next request is looked for behind them.
        """
        if self.adds is None:
            return False
        frame = held_frame(self.adds)
        if not frame:
            return False
        commits = _INT16.unpack_from(frame)[0] == END and bool(decode_request(frame)[1].committed)
        if not commits:
            self.network.unhold(self.adds)
        return commits

    def return_to_old(self) -> None:
        """Lose the EndTxn request, and let the client reach only the old coordinator."""
        self.is_returning = True
        self.world.count("end lost on the way")
        for other in self.brokers() - {self.host.name}:
            self.network.refuse(self.client, other)
        self.reset_links(to_old=False)
        self.network.blocked.discard((self.client, self.host.name))

    def links(self) -> list[Link]:
        return [link for link in self.network.links if link.opener.party.name == self.client]

    def reset_links(self, *, to_old: bool) -> None:
        for link in self.links():
            if (link.acceptor.party.name == self.host.name) == to_old:
                self.network.reset(link)


def held_frame(end: End) -> memoryview | None:
    """Return the first request held of what this end sent, once it is complete."""
    held = b"".join(end.held)
    if len(held) < PREFIX:
        return None
    length = _INT32.unpack_from(held)[0]
    return memoryview(held)[PREFIX : PREFIX + length] if PREFIX + length <= len(held) else None


DRAWN: Mapping[str, Kind] = {"stale_coordinator": stale_coordinator}
