"""Applications that write in transactions, some of them under one ID, and an auditor that reads what is committed.
`clients/transactor.py` says what it may find.
"""

from collections.abc import Sequence
from random import Random

from tidelog.model import TopicPartition
from tidelog.sim.clients.other_producers import OLD_VERSIONS, Habits
from tidelog.sim.clients.transactor import Auditor, Ledger, Owner, Transactor
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI

TOPIC = "transacted"
IDS = (("a",), ("a", "b"), ("a", "a"), ("a", "b", "a"), ("a", "b", "a", "c"))
"""A process that takes an ID over fences the previous one."""

PAUSES = (150 * MILLI, 300 * MILLI, 600 * MILLI)


class Transactions:
    """`compacted` are partitions of compacted topics that get some of the records. `habits` are the random generators
    of a seed in which some applications use versions before transaction version 2, end transactions in which they sent
    nothing, or skip their first batch; None for each habit that the seed does not have.
    """

    def __init__(
        self,
        cluster: Cluster,
        dice: Random,
        habits: Sequence[Random | None] = (None, None, None),
        *,
        compacted: Sequence[TopicPartition] = (),
        partitions: int | None = None,
    ) -> None:
        self.cluster = cluster
        self.ledger = Ledger(frozenset(compacted), cluster.suite.ghosts.reused)
        self.names = [TopicPartition(TOPIC, number) for number in range(dice.choice((1, 1, 2)))][:partitions]
        self.ids = dice.choice(IDS)
        self.pause = (5 * MILLI, dice.choice(PAUSES) * len(self.ids))
        self.all_names = [*self.names, *compacted]
        self.habits = [_drawn(*habits) for _ in self.ids]
        self.transactors: list[Transactor] = []
        self.auditor: Auditor | None = None

    def __repr__(self) -> str:
        return f"<transactions of {', '.join(self.ids)}, {self.ledger!r}>"

    def start(self) -> None:
        cluster = self.cluster
        cluster.create(TOPIC, len(self.names))
        self.transactors = [
            Transactor(
                cluster.world,
                self.ledger,
                f"transactor-{number}",
                name,
                self.all_names,
                self.pause,
                habits,
                Owner(cluster.suite.ghosts, name) if self.ids.count(name) == 1 and habits.is_current else None,
            )
            for number, (name, habits) in enumerate(zip(self.ids, self.habits, strict=True))
        ]
        self.auditor = Auditor(cluster.world, self.all_names, self.ledger)
        for transactor in self.transactors:
            transactor.process.after(0, transactor.start)
        self.auditor.process.after(0, self.auditor.start)

    def stop(self) -> None:
        for transactor in self.transactors:
            transactor.stopped = True

    def end(self) -> None:
        """Wait until every transaction ends, unless records may be lost: then it may need an operator."""
        everybody = self.transactors
        if not self._is_lossy():
            self.cluster.expect(lambda: all(one.idle for one in everybody), 120, "every transaction ends")

    def settle(self) -> None:
        """Check that the committed values are those that applications believe committed, unless records may be lost."""
        auditor, ghosts = self.auditor, self.cluster.suite.ghosts
        if auditor is None or self._is_lossy():
            return
        if ghosts.aged:  # committed records and the state of their ID may have expired
            return

        def is_read() -> bool:
            return all(auditor.has_read(name, ghosts.of(name).true_high_watermark) for name in self.all_names)

        self.cluster.expect(is_read, 90, "the last stable offset reaches the high watermark, and the auditor both")
        self.ledger.check(auditor.found)

    def _is_lossy(self) -> bool:
        return bool(self.cluster.suite.ghosts.with_losses())


def _drawn(old: Random | None, early: Random | None, skips: Random | None) -> Habits:
    """Draw the habits of one application."""
    return Habits(
        old.choice((*OLD_VERSIONS, None)) if old is not None else None,
        early is not None and early.random() < 0.7,
        skips is not None and skips.random() < 0.5,
    )
