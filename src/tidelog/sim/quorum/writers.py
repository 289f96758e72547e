"""Processes that change the tree under their sessions, and send each change until it is applied where it was made
(`node/quorum/tree_writes.py`): requests and answers are lost, come twice, late, and to leaders that lead no more.

- I44: a change that is answered with ok is in the log with effect once, one that is answered with conflict had none.
"""

from functools import partial

from tidelog.effects import Store
from tidelog.errors import ErrorCode
from tidelog.node.quorum.local_tree import LocalTree
from tidelog.node.quorum.tree_writes import Results, TreeWrites
from tidelog.ports import ANY_VERSION, Check, Create, Delete, Operation, StoreResult, Write
from tidelog.quorum.records import NO_SESSION, Decoded, TreeChanges
from tidelog.quorum.states import Leader
from tidelog.quorum.tree import Applied
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.quorum.checks import Checks, Violation
from tidelog.sim.quorum.faults import Faults
from tidelog.sim.quorum.machines import REQUEST_TIMEOUT, Machine, World
from tidelog.sim.quorum.sessions import Sessions

MOST_WAITING = 5
"""Changes without an answer: all of them fit into a segment."""
LATE = 0.1
"""How often a request arrives seconds later, after it was given up."""


class Writer:
    """One session of one process. Its tokens are the numbers of its changes."""

    def __init__(self, life: int, session: int) -> None:
        self.life, self.session = life, session
        self.writes = TreeWrites(LocalTree(0, 0))  # asked nothing
        self.submitted = self.answered = 0


class Writers:
    def __init__(self, world: World, checks: Checks, sessions: Sessions, faults: Faults) -> None:
        self.world, self.faults = world, faults
        self._random = world.random
        self._sessions = sessions
        self._writers: dict[int, Writer] = {}
        self._done: dict[tuple[int, int], int] = {}
        """How often a change, by session and number, had effect."""
        self._applied_before, self._judged_before = world.applied, checks.judged
        world.applied, checks.judged = self._applied, self._judged

    def __repr__(self) -> str:
        return f"Writers({len(self._writers)} processes)"

    def begin(self) -> None:
        for machine in self.world.machines:
            self._turn(machine)

    def _turn(self, machine: Machine) -> None:
        """What a process does now and then: submit changes, and send what is not sent."""
        self.world.after(self._random.randint(20, 300) * MILLI, partial(self._turn, machine))
        state = machine.state
        if machine.quorum is None or state is None or machine.paused_until > self.world.micros:
            return
        session = state.tree.session_of(machine.id)
        own = session.session if session is not None and self._sessions.is_own(machine, session) else NO_SESSION
        writer = self._writers.get(machine.id)
        if writer is None or (writer.life, writer.session) != (machine.life, own):
            self._writers.pop(machine.id, None)
            if own == NO_SESSION:
                return
            writer = self._writers[machine.id] = Writer(machine.life, own)
        assert session is not None
        # What a snapshot stands for is not applied one by one.
        self._report(writer, writer.writes.applied(session.number, StoreResult("unknown")))
        waiting = writer.submitted - writer.answered
        count = 0 if self.faults.is_over or waiting > MOST_WAITING else self._random.choice((0, 1, 1, 3))
        for _ in range(count):
            writer.submitted += 1
            self._report(writer, writer.writes.submit(own, Store(writer.submitted, self._changes())))
        self._send(machine, writer)

    def _changes(self) -> list[Operation]:
        """Some of them meet conflicts."""
        changes: list[Operation] = []
        for _ in range(self._random.choice((1, 1, 2, 3))):
            path, data = f"/w{self._random.randint(0, 9)}", b"%d" % self._random.randint(0, 99)
            version = self._random.choice((ANY_VERSION, ANY_VERSION, 0, 1))
            kinds = (Create(path, data), Write(path, data, version), Delete(path, version), Check(path, version))
            changes.append(self._random.choice(kinds))
        return changes

    # on the way

    def _send(self, machine: Machine, writer: Writer) -> None:
        quorum = machine.quorum
        assert quorum is not None
        leader, epoch = quorum.standing
        values = writer.writes.take(leader, epoch, self.world.now(machine).mono)
        if not values:
            return
        target, life, is_done = self.world.machines[leader], machine.life, False

        def answer(code: ErrorCode | None) -> None:
            nonlocal is_done
            if is_done or machine.life != life or self._writers.get(machine.id) is not writer:
                return
            is_done = True
            if code == ErrorCode.NONE:
                writer.writes.delivered(epoch)
            else:
                writer.writes.failed(epoch, self.world.now(machine).mono + 20)

        def arrive() -> None:
            if target.quorum is None:
                return
            is_leader = isinstance(target.quorum.state, Leader) and target.quorum.epoch == epoch
            if target.paused_until > self.world.micros or not is_leader or not self._sessions.is_in_office(target):
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                its_life = target.life
                self.world.give(target, "append", list(values))
                if target.life != its_life:
                    return  # it died within the append
                code = ErrorCode.NONE
            self.world.send(target, machine, code, partial(answer, code))

        if target is machine:
            arrive()
        else:
            for _ in range(1 + (self._random.random() < self.world.network.repeats)):
                self.world.send(machine, target, values, arrive)
        if self._random.random() < LATE:
            self.world.after(self._random.randint(0, 8) * SECOND, arrive)
        self.world.after(REQUEST_TIMEOUT, partial(answer, None))

    # what comes of it

    def _judged(self, offset: int, record: Decoded, applied: Applied) -> None:
        self._judged_before(offset, record, applied)
        if isinstance(record, TreeChanges) and record.session != NO_SESSION and applied.verdict == "ok":
            key = (record.session, record.number)
            self._done[key] = self._done.get(key, 0) + 1
            if self._done[key] > 1:
                raise Violation(f"I44: change {record.number} of session {record.session} has effect twice")

    def _applied(self, machine: Machine, offset: int, record: Decoded, applied: Applied) -> None:
        self._applied_before(machine, offset, record, applied)
        writer = self._writers.get(machine.id)
        if writer is None or writer.life != machine.life or not isinstance(record, TreeChanges):
            return
        if record.session == writer.session:
            self._report(writer, writer.writes.applied(record.number, applied.store_result()))

    def _report(self, writer: Writer, results: Results) -> None:
        for number, result in results:
            writer.answered += 1
            done = self._done.get((writer.session, number), 0)
            if result.outcome != "unknown" and done != (result.outcome == "ok"):
                raise Violation(f"I44: change {number} of session {writer.session} is {result.outcome}, done {done}")

    def check_answered(self) -> None:
        """Once all faults have ended, every process knows what came of its changes."""
        for number, writer in self._writers.items():
            machine = self.world.machines[number]
            if writer.life == machine.life and writer.answered < writer.submitted:
                raise Violation(f"liveness: {number} waits for {writer.submitted - writer.answered} of its changes")
