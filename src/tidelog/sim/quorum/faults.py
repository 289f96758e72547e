"""The faults of a simulated quorum: what strikes its machines, disks, clocks and network, and what operators do."""

from collections.abc import Callable, Sequence
from functools import partial

from tidelog.effects import Event
from tidelog.errors import ApiError
from tidelog.model import NO_ID
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.faults import KILL, MILLI, POWER, Fault
from tidelog.sim.quorum.checks import Checks, whole_batches_of
from tidelog.sim.quorum.machines import FOLDER, Machine, World, endpoint_of
from tidelog.wire.messages.cluster.metadata_log import Voter
from tidelog.wire.messages.cluster.quorum_voters import AddRaftVoterRequest, Listener, RemoveRaftVoterRequest

DAY_MS = 24 * 3_600_000
LATER = ("upgrade", "move", "jump_clock", "hang")
"""Kinds that were added later; a run has those that it draws."""


class Faults:
    """`struck` counts them by kind, `later` are the kinds of `LATER` that the run has. Without directories
    (kraft.version 0) no disk is replaced, because nobody could tell, and no voter changes."""

    def __init__(self, world: World, checks: Checks, struck: dict[str, int], later: Sequence[str] = ()) -> None:
        self.world = world
        self.random = world.random
        self.is_over = False
        self._checks = checks
        self._struck = struck
        self._later: list[Callable[[], bool]] = [getattr(self, kind) for kind in later]
        self._aimed: set[int] = set()
        """Machines that end when their logs start over, or have a new snapshot."""
        world.noticed = self._noticed

    def __repr__(self) -> str:
        return f"Faults({self._struck})"

    def strike(self, pace: int) -> None:
        """One fault now, and others later, about `pace` microseconds apart."""
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
            self.end_at_snapshot,
            self.end_at_snapshot,
            self.pause,
            self.fail_sync,
            self.fail_sync,
            self.wipe,
            self.claim_gone,
            self.rot,
            self.fill_disk,
            self.stop,
            self.resign,
            self.snapshot,
            self.change_voters,
            *self._later,
        ]
        self._do(self.random.choice(kinds))
        self.world.after(self.random.randint(pace // 10, pace), partial(self.strike, pace))

    def operate(self, pace: int) -> None:
        """What operators and time do, faults or not: changes of voters, and snapshots."""
        if self.is_over:
            return
        self._do(self.random.choice((self.snapshot, self.change_voters)))
        self.world.after(self.random.randint(pace // 10, pace), partial(self.operate, pace))

    def _do(self, kind: Callable[[], bool]) -> None:
        if kind():
            name = kind.__name__
            self._struck[name] = self._struck.get(name, 0) + 1
            self.world.note(f"fault: {name}")

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
        self._end_within(self._victim(), how)
        return True

    def _end_within(self, machine: Machine, how: str) -> None:
        machine.disk.operations_left = self.random.choice((0, 1, 2, 3, 5, 8, 13, 30))
        machine.disk.verdict = lambda: how

    def cut_power_within(self) -> bool:
        return self._within(POWER)

    def kill_within(self) -> bool:
        return self._within(KILL)

    def end_at_snapshot(self) -> bool:
        """The end comes in one of the disk operations after which a log starts over, or has a new snapshot."""
        self._aimed.add(self._victim().id)
        return True

    def _noticed(self, machine: Machine, events: Sequence[Event]) -> None:
        quorum = machine.quorum
        if machine.id not in self._aimed or quorum is None or self.is_over:
            return
        if quorum.replica.saved.starts_over or any(each.kind == "quorum.snapshot" for each in events):
            self._aimed.discard(machine.id)
            self._end_within(machine, self.random.choice((KILL, POWER)))

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

    def _may_lose(self, victim: Machine) -> bool:
        """Whether a majority of every set that may count is left without this machine's disk."""
        for voters in self._sets():
            if not voters.directories or self._present(voters, but=victim) < voters.majority:
                return False
        return True

    def _present(self, voters: VoterSet, but: Machine) -> int:
        """How many other voters have their disks, and are reached where the set says."""
        present = 0
        for record, key in zip(voters.records, voters, strict=True):
            machine = self.world.machines[key.id]
            has_disk = not machine.is_rotten and (key.directory == NO_ID or machine.key == key)
            present += machine is not but and has_disk and is_reached(machine, record)
        return present

    def _sets(self) -> list[VoterSet]:
        """The voter sets of all machines, as far as anybody knows."""
        return [m.quorum.voters if m.quorum is not None else m.last_voters for m in self.world.machines]

    def wipe(self) -> bool:
        """A disk is replaced."""
        victim = self._victim()
        if not self._may_lose(victim):
            return False
        self.world.wipe(victim)
        self.world.revive(victim)
        return True

    def rot(self) -> bool:
        """A bit is flipped in what a replica knows that it had synced; it is found at the next start at the latest."""
        victim = self._victim()
        quorum = victim.quorum
        if quorum is None or victim.is_rotten or not self._may_lose(victim):
            return False
        found = [
            (path, position)
            for path, batch in whole_batches_of(victim)
            if batch.next_offset <= quorum.replica.saved.high_watermark
            for position in (batch.position + 40, batch.end - 1)
        ]
        if not found:
            return False
        self.world.loses(victim)
        victim.is_rotten = True
        victim.disk.flip(*self.random.choice(found))
        self.world.kill(victim)
        self.world.revive(victim)
        return True

    def fill_disk(self) -> bool:
        """The disk is full for a while."""
        disk = self._victim().disk
        disk.capacity = disk.used() + self.random.choice((0, 100, 3_000))
        self.world.after(self.random.randint(100, 4_000) * MILLI, partial(setattr, disk, "capacity", None))
        return True

    def stop(self) -> bool:
        """A clean stop."""
        victim = self._victim()
        if victim.quorum is None or victim.paused_until > self.world.micros:
            return False
        self.world.stop(victim)
        self.world.revive(victim)
        return True

    def resign(self) -> bool:
        victim = self._victim()
        if victim.quorum is None or not isinstance(victim.quorum.state, Leader):
            return False
        self.world.give(victim, "resign")
        return True

    def snapshot(self) -> bool:
        """A replica makes a snapshot of what it has applied."""
        victim = self._victim()
        quorum, state = victim.quorum, victim.state
        if quorum is None or state is None or victim.paused_until > self.world.micros:
            return False
        if not max(quorum.replica.log.log_start_offset, quorum.replica.snapshots.newest.end_offset) < state.applied:
            return False
        self.world.give(victim, "make_snapshot", state.applied, state.tree.picture(), state.timestamp)
        return True

    def change_voters(self) -> bool:
        """An operator removes a voter whose disk is lost, or changes any other."""
        leader = self._in_office()
        if leader is None or leader.quorum is None or not leader.quorum.voters.directories:
            return False
        voters = leader.quorum.voters
        machines = self.world.machines
        if not all(is_reached(machines[record.voter_id], record) for each in self._sets() for record in each.records):
            return False
        lost = [voter for voter in voters if machines[voter.id].key != voter or machines[voter.id].is_rotten]
        others = [machine for machine in machines if machine.id not in voters.ids]
        if lost:
            self._ask(leader, _removal(lost[0]))
        elif others and self.random.random() < 0.6:
            self._ask(leader, _addition(self.random.choice(others), wait=self.random.random() < 0.5))
        elif len(voters) > 1:
            self._ask(leader, _removal(self.random.choice(voters.keys)))
        return True

    def _in_office(self) -> Machine | None:
        """A leader in office whose process runs."""
        found = (m for m in self.world.machines if m.quorum is not None and m.quorum.is_in_office)
        leader = next(found, None)
        return leader if leader is not None and leader.paused_until <= self.world.micros else None

    def _ask(self, leader: Machine, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> None:
        def answered(response: object) -> None:
            self.world.note(f"operator: {response}")

        self.world.request(leader, request, answered)

    def claim_gone(self) -> bool:
        """A proof that is wrong: the process is alive."""
        observer, dead = self.random.choice(self.world.machines), self._victim()
        if observer is dead or observer.quorum is None:
            return False
        self.world.give(observer, "gone", dead.id)
        return True

    def upgrade(self) -> bool:
        """An operator makes static voters dynamic ones (kraft.version 1), if all of them are known."""
        leader = self._in_office()
        if leader is None or leader.quorum is None or leader.quorum.voters.directories:
            return False
        try:
            self.world.give(leader, "upgrade")
        except ApiError:
            return False
        return True

    def move(self) -> bool:
        """A process comes back at another address. Operators move one voter after the other, and none without whom
        there is no majority: the others could not ask it for its vote, and it may need theirs."""
        victim = self._victim()
        if any(self._present(voters, but=victim) < voters.majority for voters in self._sets()):
            return False
        victim.port += 1
        self.world.kill(victim)
        self.world.revive(victim)
        return True

    def jump_clock(self) -> bool:
        """A wall clock is days ahead, or behind."""
        self._victim().wall_offset = self.random.randint(-8 * DAY_MS, 8 * DAY_MS)
        return True

    def hang(self) -> bool:
        """Nothing that a disk is to write ends for a while; the process runs on."""
        victim = self._victim()
        victim.hangs_until = self.world.micros + self.random.randint(200, 9_000) * MILLI
        return True


def is_reached(machine: Machine, record: Voter) -> bool:
    """Whether the voter listens where the set says. A set without endpoints says nothing."""
    return not record.endpoints or record.endpoints[0].port == machine.port


def _addition(machine: Machine, *, wait: bool) -> AddRaftVoterRequest:
    key, place = machine.key, endpoint_of(machine)
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=2_000,
        voter_id=key.id,
        voter_directory_id=key.directory,
        listeners=[Listener(name=place.name, host=place.host, port=place.port)],
        ack_when_committed=wait,
    )


def _removal(key: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory)
