"""A transaction coordinator that is replaced and not told, and an old producer that comes back to it.

Just when a transaction of such a producer is committed, and complete in sync, its coordinator is cut off from the other
brokers and from the store, and its session expires. Clients still reach it. The producer begins its next transaction at
the successor, and loses its ways to all others when it asks for the end: the broker that it can reach believes that it
coordinates, and remembers the transaction before, of the same producer epoch. It must not answer out of memory. Only
commits matter: what is taken for aborted ends so, too.
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
"""How often the clients' requests do not reach the old coordinator at first: a transaction that it hears of is not the
one that it remembers."""

RETURNS = 0.7
"""How often it registers anew, while others cannot tell it that it was replaced: the metadata name it again then."""

LASTS = (6 * SECOND, 12 * SECOND, 20 * SECOND)
POLL = 10 * MILLI


def stale_coordinator(strike: Strike) -> None:
    """One at a time: it takes a coordinator that is not cut off, and successors."""
    if any(isinstance(each, CommitDecided | Detour) for each in strike.world.witnesses):
        return
    trigger = CommitDecided(strike)
    strike.arm(trigger)
    strike.world.witnesses.append(trigger)
    strike.later(10 * SECOND, trigger.leave)


class RequestWitness:
    """A `world.Witness` to which only some requests of clients matter."""

    def starting(self, host: Host) -> None:
        """Nothing is known of it yet."""

    def sent(self, host: Host, end: End, data: bytes) -> None:
        """What is answered does not matter."""

    def received(self, host: Host, end: End, frames: Sequence[memoryview]) -> None:
        for frame in frames if end.listener else ():
            key = _INT16.unpack_from(frame)[0]
            if key in (ADD_PARTITIONS, END):
                self.requested(host, end, key, frame)

    def requested(self, host: Host, end: End, key: int, frame: memoryview) -> None:
        """For a transaction to grow, or to end."""


class CommitDecided(Trigger, RequestWitness):
    """A transaction of an old producer is to be committed. `clients` are the coordinator and the client of an id, as
    its last end was asked for."""

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
    """The way of one client from its coordinator to the successor and back. `adds` is the end on which it was last
    heard to add partitions there; what it sends behind them is held."""

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
        """What it has just written is to be in sync before it is cut off: answers wait for that."""
        self.world.witnesses.append(self)
        self.strike.arm(self, self.lasts)
        self.strike.later(self.lasts, self.end)
        if self.slow:
            for client in {link.opener.party.name for link in self.network.links} - self.brokers():
                self.network.block(client, self.host.name)
        self.when(self.is_in_sync, self.cut_off)

    def end(self) -> None:
        """All is as before; the broker hears of its session a little later."""
        self.over = True
        self.world.witnesses.remove(self)
        if self.adds is not None:
            self.network.unhold(self.adds)
        self.network.heal()

    def when(self, condition: Callable[[], bool], then: Callable[[], None]) -> None:
        """Look again and again, as long as it lasts."""
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
        """Where its first request of the next transaction does not arrive its connections break, and it asks others."""
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
        """More partitions than the first pass; the next one is looked for behind them."""
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
        """Its request for the end is lost, and of all brokers it reaches only the old coordinator."""
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
    """The first request that is held of what this end sent, once all of it is there."""
    held = b"".join(end.held)
    if len(held) < PREFIX:
        return None
    length = _INT32.unpack_from(held)[0]
    return memoryview(held)[PREFIX : PREFIX + length] if PREFIX + length <= len(held) else None


DRAWN: Mapping[str, Kind] = {"stale_coordinator": stale_coordinator}

NEEDS: Mapping[str, Sequence[str]] = {"stale_coordinator": ("transactions", "old-producers")}
