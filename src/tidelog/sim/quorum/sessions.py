"""Sessions of the machines' brokers in a simulated quorum, under the leader's office (`node/quorum/office.py`).

Each running process registers, sends heartbeats to the leader that it follows, and has an ephemeral node; its
registration may arrive again much later. The leader's office ends sessions by records.

- I42: a session ends because its broker registers again or gives it up, because its process is gone, or because the
  leader did not hear of it for a full term, in its present office; and its ephemeral nodes end with it. A session that
  was opened by an older process than the former session of its broker would be one of the dead.
"""

from functools import partial

from tidelog.controller.controller import NO_OFFICE
from tidelog.node.quorum.office import LEASE_OVER, Office
from tidelog.ports import Create
from tidelog.quorum.records import Decoded, OpenSession, SessionEnded, SessionOpened, decode, encode
from tidelog.quorum.states import Leader
from tidelog.quorum.tree import Applied
from tidelog.sim.faults import MILLI
from tidelog.sim.quorum.checks import Checks, Violation
from tidelog.sim.quorum.machines import Machine, World

TERM_MS = 3_000
HEARTBEAT = 300 * MILLI
STOPS = 0.02
"""How often a broker gives up its session instead of a heartbeat."""
FASTEST_CLOCK = 1.05
FOUNDING = (Create("/founded", b""),)


class Sessions:
    """`heard` has when the process of a leader heard of a session last, or began its office (microseconds)."""

    def __init__(self, world: World, checks: Checks) -> None:
        self.world = world
        self._random = world.random
        self._offices: dict[int, tuple[int, Office]] = {}
        """By machine: the life of its process, and its office."""
        self._heard: dict[tuple[int, int, int], int] = {}
        self._began: dict[tuple[int, int], int] = {}
        self._ending: set[tuple[int, int, int]] = set()
        """Sessions that an office is ending: it appends their end again until it is committed."""
        self._opened_by: dict[int, int] = {}
        """The life of the process that opened the newest session of each broker, in the ghost."""
        world.applied = self._applied
        checks.judged = self._judged

    def __repr__(self) -> str:
        return f"Sessions({len(self._opened_by)} brokers)"

    def begin(self) -> None:
        for machine in self.world.machines:
            self._beat(machine)

    def _beat(self, machine: Machine) -> None:
        """What a process does now and then: as leader, and as the broker that it is."""
        self.world.after(self._random.randint(HEARTBEAT // 3, HEARTBEAT), partial(self._beat, machine))
        quorum, state = machine.quorum, machine.state
        if quorum is None or state is None or machine.paused_until > self.world.micros:
            return
        self._lead(machine)
        leader = self._leader_of(machine)
        if leader is None or machine.quorum is not quorum:  # it died in the middle of that
            return
        own = state.tree.session_of(machine.id)
        if own is None or own.incarnation != _incarnation(machine):
            ephemeral = Create(f"/b{machine.id}", b"", ephemeral=True)
            replaces = state.tree.last_session_of(machine.id)
            value = encode(
                SessionOpened(machine.id, _incarnation(machine), (machine.key.directory,), replaces, (ephemeral,))
            )
            self._append(leader, [value])
            if self._random.random() < 0.3:
                self.world.after(self._random.randint(0, 9_000) * MILLI, partial(self._append_later, machine, value))
        elif self._random.random() < STOPS:
            self._append(leader, [encode(SessionEnded(own.session, "stopped"))])
        else:
            self._heartbeat(leader, machine)

    def _leader_of(self, machine: Machine) -> Machine | None:
        """The leader that the process follows, if a message reaches it and it is in office."""
        quorum = machine.quorum
        if quorum is None or quorum.election.leader < 0:
            return None
        leader = self.world.machines[quorum.election.leader]
        if (machine.id, leader.id) in self.world.network.cut or leader.paused_until > self.world.micros:
            return None
        return leader if leader.quorum is not None and self._office(leader).epoch != NO_OFFICE else None

    def is_in_office(self, machine: Machine) -> bool:
        return self._office(machine).epoch != NO_OFFICE

    @staticmethod
    def is_own(machine: Machine, session: OpenSession) -> bool:
        """Whether the machine's present process opened the session."""
        return session.incarnation == _incarnation(machine)

    def _append_later(self, machine: Machine, value: bytes) -> None:
        """A message that was on its way for long arrives."""
        for leader in self.world.machines:
            if leader.quorum is not None and self._office(leader).epoch != NO_OFFICE and leader is not machine:
                self._append(leader, [value])
                return

    def _append(self, leader: Machine, values: list[bytes]) -> None:
        quorum = leader.quorum
        if quorum is not None and isinstance(quorum.state, Leader) and leader.paused_until <= self.world.micros:
            self.world.give(leader, "append", values)

    # the office

    def _office(self, machine: Machine) -> Office:
        life, office = self._offices.get(machine.id, (-1, None))
        if office is None or life != machine.life:
            office = Office(machine.id, _incarnation(machine), TERM_MS, FOUNDING)
            self._offices[machine.id] = (machine.life, office)
        return office

    def _lead(self, machine: Machine) -> None:
        quorum, state, office = machine.quorum, machine.state, self._office(machine)
        assert quorum is not None
        assert state is not None
        now = self.world.now(machine).mono
        leads = isinstance(quorum.state, Leader)
        if office.epoch != NO_OFFICE and not (leads and office.epoch == quorum.epoch):
            office.end()
        if not isinstance(quorum.state, Leader):
            return
        if office.epoch == NO_OFFICE:
            if state.applied > quorum.state.epoch_start:
                self._began[machine.id, machine.life] = self.world.micros
                self._ending = {key for key in self._ending if key[0] != machine.id}
                self._append(machine, office.begin(quorum.epoch, state.tree, now))
            return
        values = office.over(now)
        for value in values:
            self._check_over(machine, decode(value))
        if values:
            self._append(machine, values)

    def _check_over(self, leader: Machine, record: Decoded) -> None:
        assert isinstance(record, SessionEnded)
        if record.reason != LEASE_OVER:
            return
        key = (leader.id, leader.life, record.session)
        if key in self._ending:
            return
        self._ending.add(key)
        began = self._began[leader.id, leader.life]
        heard = self._heard.get(key, 0)
        silent = self.world.micros - max(began, heard)
        if silent * FASTEST_CLOCK < (TERM_MS - 1) * MILLI:
            raise Violation(f"I42: {leader.id} ends session {record.session} that it heard of {silent / 1e6} s ago")

    def _heartbeat(self, leader: Machine, machine: Machine) -> None:
        state = leader.state
        assert state is not None
        self._office(leader).fetched(state.tree, machine.key, self.world.now(leader).mono)
        if (session := state.tree.session_of(machine.id)) is not None:
            self._heard[leader.id, leader.life, session.session] = self.world.micros

    # what is applied

    def _applied(self, machine: Machine, offset: int, record: Decoded, applied: Applied) -> None:
        """A process applied a record."""
        office = self._office(machine)
        if applied.verdict != "ok":
            return
        match record:
            case SessionOpened():
                office.opened(offset, record, self.world.now(machine).mono)
                self._heard[machine.id, machine.life, offset] = self.world.micros
            case SessionEnded(session):
                office.ended(session)

    def _judged(self, offset: int, record: Decoded, applied: Applied) -> None:
        """A record was committed, and the ghost judged it."""
        match record:
            case SessionOpened(broker) if applied.verdict == "ok":
                life = int.from_bytes(record.incarnation)
                if life < self._opened_by.get(broker, 0):
                    raise Violation(f"I42: a dead process of broker {broker} opens a session at {offset}")
                self._opened_by[broker] = life


def _incarnation(machine: Machine) -> bytes:
    return machine.life.to_bytes(16)
