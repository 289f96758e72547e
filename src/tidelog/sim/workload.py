"""Which clients a seed has, and how busy they are: drawn, so that each seed has its own interleavings.

Volume does not matter: some hundred records in bursts, with pauses in which the cluster comes to rest.
"""

from collections.abc import Collection, Sequence
from functools import partial
from random import Random

from tidelog.client.options import ConsumerOptions, ProducerOptions
from tidelog.model import TRANSACTION_TOPIC, TopicPartition
from tidelog.sim.checks.wire.probe import RogueController, RogueFollower
from tidelog.sim.clients.group import Group, draw_group
from tidelog.sim.clients.keeper import Keeper
from tidelog.sim.clients.producer import Pace
from tidelog.sim.clients.reader import OffsetLister
from tidelog.sim.clients.returner import Returner
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.nemesis.schedule import DRAWN
from tidelog.sim.parts import topology
from tidelog.sim.parts.changing_least import ChangingLeast
from tidelog.sim.parts.compaction import Compaction
from tidelog.sim.parts.copies import GROUP as COPIERS
from tidelog.sim.parts.copies import Copies
from tidelog.sim.parts.moves import LogDirectoryMoves, Reassignments
from tidelog.sim.parts.operator import TOPIC as FLEETING
from tidelog.sim.parts.operator import Operator
from tidelog.sim.parts.transactions import Transactions
from tidelog.sim.plan import dice_of

TOPIC = "t"
GROUP = "members"
STRATEGIES = (("range",), ("roundrobin",), ("sticky",), ("cooperative-sticky",), ("cooperative-sticky",))
OPERATORS, GROUPED, KEPT, ASKED, LOOSE, PROBED = 0.3, 0.5, 0.5, 0.3, 0.3, 0.2
"""The share of seeds that have an operator, a group with members, one without, an offset lister, producers without
promises, and a rogue follower.
"""

PARTS = ("operator", "group", "keepers", "asker", "transactions", "compaction", "moves")
"""Parts of a workload that may be left out, to make a failing run smaller."""

HABITS = ("old-producers", "early-ends", "first-lost")
CLIENTS = ("copiers", *HABITS, "consumer-protocol", "static-members", "old-consumers")
LATER = (
    *("forger", "folders", "relocations", "factors", "racks", *CLIENTS, *DRAWN),
    *("elr", "changing-least", "quorum", "slow-folders", "static-voters", "observers-disks"),
)
"""Parts that were added later and may be left out: seeds that found a bug before are then the same runs as before."""


class Workload:
    """The clients of one seed. Everything is drawn in the constructor.

    `partitions`: at most so many; `without`: parts that are drawn but left out; `moves`: partitions move.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        partitions: int | None = None,
        without: Collection[str] = (),
        moves: bool = False,
    ) -> None:
        self.cluster = cluster
        self.random = Random(cluster.world.random.getrandbits(64))
        drawn = self.random.choice((1, 1, 2, 3))
        self.partitions = [TopicPartition(TOPIC, number) for number in range(drawn)][:partitions]
        self.operator = Operator(cluster, TOPIC) if self.random.random() < OPERATORS else None
        self.group = self._group(without) if self.random.random() < GROUPED else None
        self.keepers = self._keepers()
        self.offset_lister = self._offset_lister() if self.random.random() < ASKED else None
        has_rogue = self.random.random() < PROBED
        self.probe = RogueFollower(cluster.world, cluster.suite.ghosts, moves=moves) if has_rogue else None
        self._leave_out(without)
        seed = cluster.world.seed
        dice = dice_of(seed, "compaction", without)
        self.compaction = Compaction(cluster, dice) if dice is not None else None
        dice = dice_of(seed, "transactions", without)
        habits = [dice_of(seed, habit, without) for habit in HABITS]
        self.transactions = self._transactions(dice, partitions, habits) if dice is not None else None
        dice, old = dice_of(seed, "copiers", without), dice_of(seed, "old-producers", without)
        self.copies = Copies(cluster, dice, self.partitions, old=old) if dice is not None else None
        if self.copies is not None and "keepers" not in without:
            keepers = Keeper(
                cluster.world, cluster.commits, "copies-watcher", self.partitions, group=COPIERS, writes=False
            )
            self.keepers.append(keepers)
        self.moves = Reassignments(cluster, Random(f"{seed} moves")) if moves else None
        dice = dice_of(seed, "forger", without)
        self.forger = RogueController(cluster.world, cluster.suite.ghosts, dice) if dice is not None else None
        self.rack_dice = dice_of(seed, "racks", without)
        dice = dice_of(seed, "relocations", without) if len(cluster.folders) > 1 else None
        self.relocations = LogDirectoryMoves(cluster, dice) if dice is not None else None
        dice = dice_of(seed, "old-consumers", without) if self.operator is not None else None
        self.returner = Returner(cluster, FLEETING, dice) if dice is not None else None
        dice = dice_of(seed, "changing-least", without) if cluster.elr else None
        self.least = ChangingLeast(cluster, dice) if dice is not None else None
        cluster.world.folder_dice = dice_of(seed, "slow-folders", without)

    def _transactions(self, dice: Random, partitions: int | None, habits: Sequence[Random | None]) -> Transactions:
        compacted = self.compaction.names if self.compaction is not None else ()
        return Transactions(self.cluster, dice, habits, compacted=compacted, partitions=partitions)

    def _leave_out(self, parts: Collection[str]) -> None:
        if "operator" in parts:
            self.operator = None
        if "asker" in parts:
            self.offset_lister = None
        if "group" in parts:
            self.group = None
            self.keepers = [keeper for keeper in self.keepers if keeper.writes]
        if "keepers" in parts:
            self.keepers = []

    def __repr__(self) -> str:
        return f"<workload on {len(self.partitions)} partitions, {self.group}, {self.operator}>"

    def start(self) -> None:
        self.cluster.create(TOPIC, len(self.partitions))
        self._produce()
        self.cluster.consume(*self.partitions)
        if self.rack_dice is not None:
            topology.consume_from_rack(self.cluster, self.partitions, self.rack_dice)
        if self.operator is not None:
            self.operator.process.after(0, self.operator.start)
        if self.group is not None:
            self.group.start(self.random.randint(1, 3))
        for keeper in self.keepers:
            keeper.process.after(0, keeper.start)
        if self.offset_lister is not None:
            self.offset_lister.process.after(0, self.offset_lister.start)
        if self.probe is not None:
            self.probe.start()
        if self.compaction is not None:
            self.compaction.start()
        if self.transactions is not None:
            self.transactions.start()
        if self.copies is not None:
            self.copies.start()
        if self.moves is not None:
            self.moves.start()
        if self.forger is not None:
            self.forger.start()
        if self.relocations is not None:
            self.relocations.start()
        if self.returner is not None:
            self.returner.process.after(0, self.returner.start)
        if self.least is not None:
            self.least.start()

    # Producers.

    def _produce(self) -> None:
        """Start one producer for all partitions, or one for each; and perhaps one more with weaker guarantees."""
        each = [[name] for name in self.partitions] if self.random.random() < 0.5 else [self.partitions]
        gap = self.random.choice((150, 400, 800)) * MILLI * len(each)
        gap += gap * sum(part is not None for part in (self.compaction, self.transactions, self.copies))
        for partitions in each:
            self.cluster.produce(*partitions, options=self._careful(), pace=Pace(gap=(gap // 10, 2 * gap)))
        if self.random.random() < LOOSE:
            self.cluster.produce(*self.partitions, options=self._loose(), pace=Pace(gap=(gap // 10, 3 * gap)))

    def _careful(self) -> ProducerOptions:
        return ProducerOptions(
            client_id="producer",
            linger_ms=self.random.choice((0, 0, 5, 100)),
            batch_size=self.random.choice((100, 400, 16_384)),
            max_in_flight_requests_per_connection=self.random.choice((1, 5, 5, 5)),
            request_timeout_ms=self.random.choice((1_000, 3_000, 10_000)),
            delivery_timeout_ms=self.random.choice((3_000, 20_000, 120_000)),
        )

    def _loose(self) -> ProducerOptions:
        """Options with which records may be lost or repeated."""
        return ProducerOptions(
            client_id="loose",
            acks=self.random.choice((0, 1, "all")),
            enable_idempotence=False,
            retries=self.random.choice((0, 5)),
            linger_ms=self.random.choice((0, 20)),
            batch_size=self.random.choice((100, 16_384)),
            request_timeout_ms=2_000,
            delivery_timeout_ms=5_000,
        )

    # Groups.

    def _group(self, without: Collection[str]) -> Group:
        options = ConsumerOptions(
            client_id="member",
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=self.random.random() < 0.4,
            auto_commit_interval_ms=5_000,
            partition_assignment_strategy=self.random.choice(STRATEGIES),
            session_timeout_ms=self.random.choice((3_000, 6_000)),
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=self.random.choice((4_000, 10_000)),
            fetch_max_wait_ms=1_000,
            request_timeout_ms=5_000,
            default_api_timeout_ms=10_000,
            metadata_max_age_ms=5_000,
        )
        topics = (TOPIC, FLEETING) if self.operator is not None and self.random.random() < 0.7 else (TOPIC,)
        return draw_group(self.cluster, topics, options, without)

    def _keepers(self) -> list[Keeper]:
        """Return one with its own group, and one that reads what the members report as committed."""
        world, commits = self.cluster.world, self.cluster.commits
        keepers = [Keeper(world, commits, "keeper", self.partitions)] if self.random.random() < KEPT else []
        if self.group is not None and not self.group.options.enable_auto_commit:
            keepers.append(Keeper(world, commits, "watcher", self.partitions, group=GROUP, writes=False))
        return keepers

    def _offset_lister(self) -> OffsetLister:
        return OffsetLister(self.cluster.world, self.cluster.suite.ghosts, "asker", self.partitions)

    # The end.

    def stop(self) -> None:
        """Start nothing new."""
        if self.operator is not None:
            self.operator.stop()
        if self.group is not None:
            self.group.stopped = True
        if self.offset_lister is not None:
            self.offset_lister.stopped = True
        if self.probe is not None:
            self.probe.stopped = True
        if self.compaction is not None:
            self.compaction.stop()
        if self.transactions is not None:
            self.transactions.stop()
        if self.copies is not None:
            self.copies.stop()
        if self.moves is not None:
            self.moves.stop()
        if self.forger is not None:
            self.forger.stopped = True
        if self.relocations is not None:
            self.relocations.stop()
        if self.least is not None:
            self.least.stopped = True

    def settle(self) -> None:
        """Wait until everything that was started ends well, on a healed cluster."""
        cluster = self.cluster
        if self.operator is not None:
            operator = self.operator
            cluster.expect(lambda: operator.over, 60, "the operator's last topic is there")
        for keeper in self.keepers:
            keeper.stop()
            self._await_reads(keeper)
        if self.transactions is not None:
            self.transactions.end()
        if self.returner is not None:
            self.returner.stop()
        cluster.settle()
        if self.returner is not None:
            returner = self.returner
            cluster.expect(lambda: returner.is_over, 60, f"{returner!r} reads by the topic's name")
        if self.transactions is not None:
            self.transactions.settle()
        if self.copies is not None:
            self.copies.settle()
        if self.group is not None:
            self.group.finish()
            cluster.expect(self.group.is_settled, 60, f"{self.group!r} is stable, owns everything and has read it")

    def _await_reads(self, keeper: Keeper) -> None:
        """Wait until the keeper has read.

        If the log of the transactions was lost, markers for positions in them never arrive, as in Kafka, and stable
        positions are never returned.
        """
        has_read, within = partial(self._has_read, keeper), 60
        if self.cluster.world.run(within * SECOND, has_read):
            return
        if not any(name.topic == TRANSACTION_TOPIC for name in self.cluster.suite.ghosts.with_losses()):
            self.cluster.expect(has_read, 0, f"{keeper!r} reads what was committed, as for {within} s before")

    def _has_read(self, keeper: Keeper) -> bool:
        return keeper.is_over or self.cluster.commits.is_void
