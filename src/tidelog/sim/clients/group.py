"""A group and its churn: members join, leave, crash and stand still, while partitions come and go.

At the end it is stable: all members are of one generation, own every partition once, and have read it to the end.
"""

from collections.abc import Callable

from tidelog.client.options import ConsumerOptions
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.commits import Commits
from tidelog.sim.clients.member import Member
from tidelog.sim.clients.told import Told
from tidelog.sim.faults import SECOND
from tidelog.sim.world import World

MOST = 4
CHURN = (SECOND, 8 * SECOND)
STANDSTILL = (SECOND, 15 * SECOND)


class Group:
    """`options` are those of every member."""

    def __init__(
        self,
        world: World,
        ghosts: Ghosts,
        told: Told,
        commits: Commits,
        topics: tuple[str, ...],
        options: ConsumerOptions,
    ) -> None:
        self.world = world
        self.ghosts = ghosts
        self.told = told
        self.commits = commits
        self.topics = topics
        self.options = options
        self.members: list[Member] = []
        self.stopped = False
        self._names = 0

    def __repr__(self) -> str:
        return f"<group {self.options.group_id} of {self.members}>"

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members if member.process.alive and not member.leaving]

    def start(self, members: int) -> None:
        for _ in range(members):
            self.join()
        self._churn_later()

    def join(self) -> None:
        self._names += 1
        name = f"{self.options.group_id}-{self._names}"
        member = Member(self.world, self.told, self.commits, name, self.topics, self.options)
        self.members.append(member)
        member.process.after(0, member.start)

    # Churn.

    def _churn_later(self) -> None:
        self.world.after(self.world.random.randint(*CHURN), self._churn)

    def _churn(self) -> None:
        if self.stopped:
            return
        living = self.living
        acts: list[Callable[[], None]] = [self.join] if len(living) < MOST else []
        if len(living) > 1:
            member = self.world.random.choice(living)
            acts += [member.leave, member.process.kill, lambda: member.process.pause(self._standstill())]
        act = self.world.random.choice(acts)
        self.world.count("group churn")
        act()
        self._churn_later()

    def _standstill(self) -> int:
        return self.world.random.randint(*STANDSTILL)

    # The end.

    def is_settled(self) -> bool:
        """One generation that shares everything out, and everything is read."""
        living = self.living
        wanted = sorted(name for name in self.ghosts.assignments if name.topic in self.topics)
        owned = sorted(name for member in living for name in member.machine.assignment)
        generations = {member.stable_generation for member in living}
        return owned == wanted and len(generations) == 1 and min(generations) >= 0 and self._all_is_read()

    def _all_is_read(self) -> bool:
        ends = {name: self.ghosts.of(name) for member in self.living for name in member.machine.assignment}
        return all(
            ends[name].loss_allowed or member.has_read(name, ends[name].true_high_watermark)
            for member in self.living
            for name in member.machine.assignment
        )
