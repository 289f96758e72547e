"""A group and its churn: members join, leave, crash and pause, while topics are created and deleted.

Members speak the classic protocol, the consumer protocol (KIP-848), or some of them each. Static ones (KIP-345) leave
and return under their instance IDs, sometimes as two processes at a time.

At the end the group is stable: all members are in one generation, own every partition once, and have read it to the
end.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from random import Random

from tidelog.client.group.assignors import are_cooperative
from tidelog.client.options import ConsumerOptions
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.commits import Commits
from tidelog.sim.clients.member import Member
from tidelog.sim.clients.seen_records import SeenRecords
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.plan import dice_of
from tidelog.sim.world import World

MOST = 4
CHURN = (SECOND, 8 * SECOND)
STANDSTILL = (SECOND, 15 * SECOND)


RETURN = ((100 * MILLI, SECOND), (100 * MILLI, 3 * SECOND), (5 * SECOND, 12 * SECOND))
"""How long a static member is away: within its session, or for longer."""

JOINS = 0.1
"""How often another instance joins."""

CLASSIC, CONSUMER = "classic", "consumer"
PROTOCOL_SHARES = (1.0, 1.0, 0.5)
"""The part of the members that speak the consumer protocol."""

CONSUMER_PROTOCOL_PROPERTIES: Mapping[str, str] = {
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""The session options of members of the consumer protocol; members of the classic one set their own."""


class Group:
    """`options` are those of every member; `dice` decide for each whether it speaks the consumer protocol instead, with
    probability `share`.
    """

    def __init__(
        self,
        world: World,
        ghosts: Ghosts,
        seen_records: SeenRecords,
        commits: Commits,
        topics: tuple[str, ...],
        options: ConsumerOptions,
        *,
        dice: Random | None = None,
        share: float = 0.0,
    ) -> None:
        self.world = world
        self.ghosts = ghosts
        self.seen_records = seen_records
        self.commits = commits
        self.topics = topics
        self.options = options
        self.dice = dice
        self.share = share
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
        self.add(self._new_member())

    def add(self, member: Member) -> None:
        self.members.append(member)
        member.process.after(0, member.start)

    def _new_member(self, instance: str | None = None) -> Member:
        self._names += 1
        name = f"{self.options.group_id}-{self._names}"
        options = self.options
        if self.dice is not None:
            protocol = CONSUMER if self.dice.random() < self.share else CLASSIC
            options = replace(options, group_protocol=protocol, group_instance_id=instance)
        return Member(
            self.world,
            self.seen_records,
            self.commits,
            name,
            self.topics,
            options,
            share=self.share,
            over=self.ended,
        )

    def ended(self, member: Member) -> None:
        """Replace a member that cannot continue."""
        member.process.kill()
        self.world.count("member begins anew")
        self.join()

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
            acts += [member.leave, member.process.kill, lambda: member.process.pause(self._pause_duration())]
        act = self.world.random.choice(acts)
        self.world.count("group churn")
        act()
        self._churn_later()

    def _pause_duration(self) -> int:
        return self.world.random.randint(*STANDSTILL)

    # The end.

    def finish(self) -> None:
        """Do what the group needs to become stable after the churn has ended."""

    def is_settled(self) -> bool:
        """Whether one generation owns everything and has read it."""
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


class StaticGroup(Group):
    """Members with instance IDs, and a supervisor that restarts them."""

    def __repr__(self) -> str:
        return f"<group {self.options.group_id} of static {self.members}>"

    def join(self) -> None:
        self._start_instance(f"instance-{len({member.instance for member in self.members})}")

    def _start_instance(self, instance: str) -> None:
        """Start a process of this instance; others of it may still run."""
        others = [member for member in self.members if member.instance == instance and member.process.alive]
        member = self._new_member(instance)
        member.replaces = [(other, other.admission) for other in others if other.generation >= 0]
        self.add(member)

    def ended(self, member: Member) -> None:
        """Restart a member that was fenced by another process of its instance, or cannot have the ID yet."""
        assert member.instance is not None
        member.process.kill()
        self._restart_later(member.instance)

    def _restart_later(self, instance: str) -> None:
        """Start the instance again later, unless another process of it runs by then."""
        delay = self._dice.choice(RETURN)
        self.world.after(self._dice.randint(*delay), lambda: self._restart_instance(instance))

    def _restart_instance(self, instance: str) -> None:
        if all(member.instance != instance for member in self.living):
            self._start_instance(instance)

    @property
    def _dice(self) -> Random:
        assert self.dice is not None
        return self.dice

    def finish(self) -> None:
        """Trigger one more rebalance where one may be missing.

        With cooperative assignors, partitions are released in one generation and assigned in the next, which a
        coordinator may lose. A leader may have assigned before it knew all topics, and was killed when it learned of
        them: static members that return keep what they had, as in Kafka, until somebody joins.
        """
        goes_on = any(member.goes_on for member in self.living)
        if goes_on or are_cooperative(self.options.partition_assignment_strategy):
            self.join()

    # Churn.

    def _churn(self) -> None:
        if self.stopped:
            return
        living = [member for member in self.living if not member.process.paused]
        acts: list[Callable[[Member], None]] = [self._restart, self._crash, self._double]
        if living:
            act, member = self._dice.choice(acts), self._dice.choice(living)
            self.world.count("group churn")
            act(member)
        if len({member.instance for member in self.members}) < MOST and self._dice.random() < JOINS:
            self.join()
        self._churn_later()

    def _restart(self, member: Member) -> None:
        assert member.instance is not None
        member.leave()
        self._restart_later(member.instance)

    def _crash(self, member: Member) -> None:
        assert member.instance is not None
        member.process.kill()
        self._restart_later(member.instance)

    def _double(self, member: Member) -> None:
        """Pause the process and start another one; later the first resumes as if nothing had happened."""
        assert member.instance is not None
        member.process.pause(self._pause_duration())
        self._start_instance(member.instance)


def draw_group(
    cluster: Cluster, topics: tuple[str, ...], options: ConsumerOptions, without: Collection[str] = ()
) -> Group:
    """Return the group that the seed draws.

    Its members speak the classic protocol; with part `consumer-protocol` all or half of them speak the consumer
    protocol; with `static-members` they have instance IDs and are processes that return.
    """
    seed = cluster.world.seed
    protocols, statics = dice_of(seed, "consumer-protocol", without), dice_of(seed, "static-members", without)
    share = protocols.choice(PROTOCOL_SHARES) if protocols is not None else 0.0
    kind = Group if statics is None else StaticGroup
    if statics is not None:
        topics = topics[:1]  # a static leader that was away does not notice created and deleted topics, as in Kafka
    return kind(
        cluster.world,
        cluster.suite.ghosts,
        cluster.seen_records,
        cluster.commits,
        topics,
        options,
        dice=statics or protocols,
        share=share,
    )


def group_properties(seed: int, without: Collection[str]) -> Mapping[str, str]:
    """Return the brokers' options of a seed that may have members of the consumer protocol."""
    parts: tuple[Random | None, ...] = tuple(dice_of(seed, part, without) for part in ("consumer-protocol", "copiers"))
    return CONSUMER_PROTOCOL_PROPERTIES if any(part is not None for part in parts) else {}
