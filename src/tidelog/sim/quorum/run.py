"""One run of a simulated quorum: what a seed draws, its faults, its recovery, and the power cut at its end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from traceback import format_exception

from tidelog.errors import ApiError
from tidelog.model import NO_ID
from tidelog.quorum.replica import Replica, config_of
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import VoterKey, Voters
from tidelog.sim.disk import PowerCut
from tidelog.sim.faults import KILL, MILLI, POWER, SECOND, Fault
from tidelog.sim.quorum.checks import Checks, Violation
from tidelog.sim.quorum.machines import FOLDER, SEGMENT_BYTES, Machine, Network, World

SAFETY = 20 * SECOND
LEADER_WITHIN = 5 * SECOND
AGREED_WITHIN = 5 * SECOND


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

    def __init__(self, seed: int) -> None:
        random = self.random = Random(f"quorum {seed}")
        voters = random.choice((1, 3, 3, 3, 3, 5))
        observers = random.choice((0, 0, 1, 2))
        self.directories = random.random() < 0.7
        keys = [VoterKey(n, bytes([7, n]) * 8 if self.directories else NO_ID) for n in range(voters + observers)]
        self.voters = Voters(keys[:voters], directories=self.directories)
        self.world = World(random, voters + observers, self.voters, keys)
        self.checks = Checks(self.world)
        self.outcome = Outcome(seed)
        world = self.world
        world.sync_delay = (100, random.choice((1, 20, 300)) * MILLI)
        world.network = Network(
            loss=random.choice((0.0, 0.0, 0.01, 0.1)),
            tail_chance=random.choice((0.0, 0.01, 0.1)),
            tail=random.choice((50, 400, 3_000)) * MILLI,
        )
        self.pace = random.choice((300, 1_500, 4_000)) * MILLI
        self.written = 0
        self.is_over = False

    def __repr__(self) -> str:
        return f"Run({self.outcome.seed}, {self.world})"

    def drive(self) -> None:
        world = self.world
        for machine in world.machines:
            world.after(self.random.randint(0, 500) * MILLI, partial(world.start, machine))
        self._write()
        world.after(self.random.randint(0, 3_000) * MILLI, self._strike)
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
                values = [b"%d:%d " % (self.written + n, machine.id) * 8 for n in range(count)]
                self.written += count
                self._append(machine, values)
        self.world.after(self.random.randint(5, 250) * MILLI, self._write)

    def _append(self, machine: Machine, values: list[bytes]) -> None:
        if machine.paused_until <= self.world.micros:
            try:
                self.world.give(machine, "append", values)
            except ApiError as error:
                raise Violation(f"fault: {machine.id} refused records: {error}") from error

    # faults

    def _strike(self) -> None:
        if self.is_over:
            return
        kinds: list[Callable[[], bool]] = [
            self.cut_off,
            self.cut_one_way,
            self.cut_power,
            self.cut_power_within,
            self.cut_power_within,
            self.cut_power_of_all,
            self.kill,
            self.kill_within,
            self.pause,
            self.fail_sync,
            self.fail_sync,
            self.wipe,
            self.claim_gone,
        ]
        kind = self.random.choice(kinds)
        if kind():
            name = kind.__name__
            self.outcome.struck[name] = self.outcome.struck.get(name, 0) + 1
            self.world.note(f"fault: {name}")
        self.world.after(self.random.randint(self.pace // 10, self.pace), self._strike)

    def _victim(self) -> Machine:
        """A leader, more often than not."""
        machines = self.world.machines
        leaders = [m for m in machines if m.quorum is not None and isinstance(m.quorum.state, Leader)]
        return self.random.choice(leaders if leaders and self.random.random() < 0.5 else machines)

    def _cut(self, directions: set[tuple[int, int]]) -> bool:
        network = self.world.network
        network.cut |= directions
        self.world.after(self.random.randint(100, 6_000) * MILLI, lambda: network.cut.difference_update(directions))
        return True

    def cut_off(self) -> bool:
        victim = self._victim().id
        others = [m.id for m in self.world.machines if m.id != victim]
        chosen = (
            others if self.random.random() < 0.6 else self.random.sample(others, self.random.randint(0, len(others)))
        )
        return self._cut({pair for other in chosen for pair in ((victim, other), (other, victim))})

    def cut_one_way(self) -> bool:
        victim = self._victim().id
        others = [m.id for m in self.world.machines if m.id != victim]
        into = self.random.random() < 0.5
        return self._cut({(other, victim) if into else (victim, other) for other in others})

    def cut_power(self) -> bool:
        victim = self._victim()
        self.world.lose_power(victim)
        self.world.revive(victim)
        return True

    def _within(self, how: str) -> bool:
        """The end comes in one of the next disk operations."""
        disk = self._victim().disk
        disk.operations_left = self.random.choice((0, 1, 2, 3, 5, 8, 13, 30))
        disk.verdict = lambda: how
        return True

    def cut_power_within(self) -> bool:
        return self._within(POWER)

    def kill_within(self) -> bool:
        return self._within(KILL)

    def cut_power_of_all(self) -> bool:
        if self.random.random() < 0.5:
            return False
        for machine in self.world.machines:
            self.world.lose_power(machine)
            self.world.revive(machine)
        return True

    def kill(self) -> bool:
        victim = self._victim()
        self.world.kill(victim)
        self.world.revive(victim)
        return True

    def pause(self) -> bool:
        victim = self._victim()
        if victim.quorum is None:
            return False
        victim.paused_until = self.world.micros + self.random.randint(50, 6_000) * MILLI
        return True

    def fail_sync(self) -> bool:
        """A failed fsync discards what was to be written, and the page looks clean."""
        victim = self._victim()
        victim.disk.faults.append(Fault("sync", self.random.choice(("", ".log", "quorum-state", FOLDER)), times=1))
        if self.random.random() < 0.5:
            self.world.after(self.random.randint(100, 4_000) * MILLI, partial(self._lose_power_later, victim))
        return True

    def _lose_power_later(self, victim: Machine) -> None:
        if not self.is_over:
            self.world.lose_power(victim)
            self.world.revive(victim)

    def wipe(self) -> bool:
        """At most a minority of the voters loses its disk in one run."""
        victim = self._victim()
        lost = sum(machine.wipes > 0 for machine in self.world.machines[: len(self.voters)])
        if not self.directories or victim.wipes or lost + 1 >= self.voters.majority:
            return False
        self.world.wipe(victim)
        self.world.revive(victim)
        return True

    def claim_gone(self) -> bool:
        """A proof that is wrong: the process is alive."""
        observer, dead = self.random.choice(self.world.machines), self._victim()
        if observer is dead or observer.quorum is None:
            return False
        self.world.give(observer, "gone", dead.id)
        return True

    # recovery

    def _heal(self) -> None:
        self.is_over = True
        world = self.world
        world.note("all faults end")
        world.network = Network()
        world.sync_delay = (100, 5 * MILLI)
        for machine in world.machines:
            machine.disk.mend()
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
        self.checks.check_logs_match()
        for machine in self.world.machines:
            quorum = machine.quorum
            if quorum is None or quorum.election[:2] != leader.quorum.election[:2]:
                raise Violation(f"liveness: {machine.id} does not follow {leader.id} 10 s after the end of all faults")
            if quorum.replica.high_watermark < leader.quorum.replica.high_watermark - 100:
                raise Violation(f"liveness: {machine.id} is far behind 10 s after the end of all faults")

    def _cut_all_power(self) -> None:
        world = self.world
        for machine in world.machines:
            world.lose_power(machine)
        opened = []
        for machine in world.machines[: len(self.voters)]:
            if machine.key in self.voters:
                replica = Replica.open(machine.disk, FOLDER, machine.voters, config_of(SEGMENT_BYTES), world.now)
                opened.append((machine, replica))
        self.checks.check_survival(opened, self.voters.majority, len(self.voters) - len(opened))
        for machine in world.machines:
            machine.disk.lose_power()
            world.power_on(machine)


def run_seed(seed: int, prepare: Callable[[Run], None] | None = None) -> Outcome:
    """Run the seed. The outcome has the violation, if any, whatever broke."""
    run = Run(seed)
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
