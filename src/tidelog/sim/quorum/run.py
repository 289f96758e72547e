"""One run of a simulated quorum: what a seed draws, its faults, its recovery, and the power cut at its end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from traceback import format_exception

from tidelog.errors import ApiError
from tidelog.model import NO_ID
from tidelog.ports import Change, Create, Delete, Write
from tidelog.quorum.options import DEFAULTS
from tidelog.quorum.records import NO_SESSION, TreeChanges, encode
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.disk import PowerCut
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.quorum.checks import Checks, Violation
from tidelog.sim.quorum.faults import LATER, Faults
from tidelog.sim.quorum.machines import Machine, Network, World, endpoint_of
from tidelog.sim.quorum.sessions import Sessions
from tidelog.sim.quorum.writers import Writers

LATER_FROM = 1_000_000
"""From this seed on a run may have what came later; those before are the same runs as ever."""
SAFETY = 20 * SECOND
LEADER_WITHIN = 5 * SECOND
AGREED_WITHIN = 5 * SECOND
KINDS_SHARE, WRITERS_SHARE = 0.4, 0.5
"""How often a run has each of the later kinds of faults, and processes that change the tree under their sessions."""


@dataclass(slots=True)
class Outcome:
    """`violation` is empty if everything held; `struck` counts the faults by kind."""

    seed: int
    violation: str = ""
    committed: int = 0
    elections: int = 0
    cuts: int = 0
    leader_after: int = 0
    """Microseconds from the end of all faults to a leader whose first record is committed."""
    struck: dict[str, int] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.violation


class Run:
    """The world of one seed. Without directories (kraft.version 0) no disk is replaced: nobody could tell."""

    def __init__(self, seed: int, *, is_former: bool = False) -> None:
        random = self.random = Random(f"quorum {seed}")
        later = None if is_former or seed < LATER_FROM else Random(f"quorum {seed} later")
        kinds = [kind for kind in LATER if later.random() < KINDS_SHARE] if later is not None else []
        voters = random.choice((1, 3, 3, 3, 3, 5))
        observers = random.choice((0, 0, 1, 2))
        self.directories = random.random() < 0.7
        has_own = self.directories or "upgrade" in kinds
        keys = [ReplicaKey(n, bytes([7, n]) * 8 if has_own else NO_ID) for n in range(voters + observers)]
        known = keys[:voters] if self.directories else [ReplicaKey(key.id) for key in keys[:voters]]
        self.voters = VoterSet(known, directories=self.directories)
        options = DEFAULTS._replace(
            snapshot_bytes=random.choice((150, 1_000, 1 << 20)),
            retention_bytes=random.choice((0, 2_000, 100 << 20)),
        )
        self.world = World(random, voters + observers, self.voters, keys, options)
        self.checks = Checks(self.world)
        self.sessions = Sessions(self.world, self.checks)
        self.outcome = Outcome(seed)
        world = self.world
        world.sync_delay = (100, random.choice((1, 1, 1, 20, 20, 300, 3_000)) * MILLI)
        world.network = Network(
            loss=random.choice((0.0, 0.0, 0.01, 0.1)),
            tail_chance=random.choice((0.0, 0.01, 0.1)),
            tail=random.choice((50, 400, 3_000)) * MILLI,
            repeats=random.choice((0.0, 0.0, 0.05)),
        )
        for machine in world.machines:
            machine.rate = random.choice((1.0, 1.0, 0.95, 1.05))
            machine.offset = random.choice((0, 10**6, 10**9))
            if self.directories and machine.id >= voters:
                machine.voters = VoterSet()  # it learns from the log who votes
        self.pace = random.choice((300, 1_500, 4_000, 10_000)) * MILLI
        self.silences = self.random.choice((0.0, 0.02, 0.1))
        self.written = 0
        self.last_voters = self.voters
        self.faults = Faults(self.world, self.checks, self.outcome.struck, kinds)
        world.tells_endpoints = "move" in kinds
        has_writers = later is not None and later.random() < WRITERS_SHARE
        self.writers = Writers(world, self.checks, self.sessions, self.faults) if has_writers else None

    def __repr__(self) -> str:
        return f"Run({self.outcome.seed}, {self.world})"

    def drive(self) -> None:
        world = self.world
        for machine in world.machines:
            late = self.random.choice((500, 500, 15_000)) if machine.id >= len(self.voters) else 500
            world.after(self.random.randint(0, late) * MILLI, partial(world.start, machine))
        self._write()
        has_sessions = self.random.random() < 0.5
        if has_sessions or self.writers is not None:
            self.sessions.begin()
        if self.writers is not None:
            self.writers.begin()
        world.after(self.random.randint(0, 3_000) * MILLI, partial(self.faults.strike, self.pace))
        if self.random.random() < 0.7:
            self.faults.operate(self.random.choice((400, 2_000, 4_000)) * MILLI)
        world.run(SAFETY)
        self._heal()
        self._await_leader()
        world.run(AGREED_WITHIN)
        self._check_agreed()
        self._cut_all_power()
        self._await_leader()

    # clients

    def _write(self) -> None:
        """Each node that believes it leads gets records."""
        for machine in self.world.machines:
            if machine.quorum is not None and isinstance(machine.quorum.state, Leader) and self.random.random() < 0.8:
                count = self.random.choice((1, 1, 2, 5))
                self._append(machine, [self._record() for _ in range(count)])
        # Now and then for so long that logs end where their newest snapshot does.
        silence = self.random.randint(3_000, 8_000) if self.random.random() < self.silences else 0
        self.world.after((silence or self.random.randint(5, 250)) * MILLI, self._write)

    def _record(self) -> bytes:
        """A change of the tree, which may be refused."""
        self.written += 1
        path = f"/n{self.random.randint(0, 30)}"
        content = b"%d " % self.written * self.random.choice((1, 8, 8))
        change: Change = self.random.choice((Create(path, content), Write(path, content), Delete(path)))
        return encode(TreeChanges(NO_SESSION, 0, (change,)))

    def _append(self, machine: Machine, values: list[bytes]) -> None:
        if machine.paused_until <= self.world.micros:
            try:
                self.world.give(machine, "append", values)
            except ApiError as error:
                raise Violation(f"fault: {machine.id} refused records: {error}") from error

    # recovery

    def _heal(self) -> None:
        self.faults.is_over = True
        world = self.world
        world.note("all faults end")
        world.network = Network()
        world.sync_delay = (100, 5 * MILLI)
        for machine in world.machines:
            machine.disk.mend()
            machine.hangs_until = 0
            world.power_on(machine)
        world.run(max(0, *(machine.paused_until - world.micros for machine in world.machines)))

    def _await_leader(self) -> None:
        begun = self.world.micros
        while self._leader() is None:
            self.world.run(50 * MILLI)
            if self.world.micros - begun > LEADER_WITHIN:
                raise Violation("liveness: no leader 5 s after the end of all faults")
        self.outcome.leader_after = max(self.outcome.leader_after, self.world.micros - begun)

    def _leader(self) -> Machine | None:
        """The leader whose own first record is committed."""
        for machine in self.world.machines:
            quorum = machine.quorum
            if quorum is None or not isinstance(quorum.state, Leader):
                continue
            if quorum.replica.high_watermark > quorum.state.epoch_start:
                return machine
        return None

    def _check_agreed(self) -> None:
        leader = self._leader()
        assert leader is not None
        assert leader.quorum is not None
        self.last_voters = leader.quorum.voters
        self.checks.check_logs_match()
        for machine in self.world.machines:
            quorum = machine.quorum
            if quorum is None or quorum.election[:2] != leader.quorum.election[:2]:
                raise Violation(f"liveness: {machine.id} does not follow {leader.id} 10 s after the end of all faults")
            if quorum.replica.high_watermark < leader.quorum.replica.high_watermark - 100:
                raise Violation(f"liveness: {machine.id} is far behind 10 s after the end of all faults")
        for record in self.last_voters.records if self.world.tells_endpoints and self.last_voters.directories else ():
            machine = self.world.machines[record.voter_id]
            is_present = record.voter_directory_id == machine.key.directory
            if is_present and record.endpoints != [endpoint_of(machine)]:
                raise Violation(f"liveness: {record.voter_id} is not known to be where it is, 10 s after all faults")
        if self.writers is not None:
            self.writers.check_answered()

    def _cut_all_power(self) -> None:
        world = self.world
        for machine in world.machines:
            world.lose_power(machine)
        for machine in world.machines:
            if not machine.is_rotten:
                world.open(machine).log.close(clean=False)
            machine.disk.lose_power()
        self.checks.check_survival(self.last_voters)
        for machine in world.machines:
            machine.disk.lose_power()
            world.power_on(machine)


def run_seed(seed: int, prepare: Callable[[Run], None] | None = None, *, is_former: bool = False) -> Outcome:
    """Run the seed, without what came later if it is a former one. The outcome has the violation, if any, whatever
    broke."""
    run = Run(seed, is_former=is_former)
    if prepare is not None:
        prepare(run)
    try:
        run.drive()
    except Violation as violation:
        run.outcome.violation = str(violation)
    except (Exception, PowerCut) as failure:  # noqa: BLE001  (whatever broke is what was looked for)
        run.outcome.violation = f"fault: {type(failure).__name__}: {failure}"
        run.outcome.history.append("".join(format_exception(failure)))
    outcome = run.outcome
    outcome.committed, outcome.elections, outcome.cuts = run.checks.end, run.checks.elections, run.checks.cuts
    outcome.history = [*run.world.history, *outcome.history]
    return outcome
