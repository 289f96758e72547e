"""The transactional workload of a seed: applications that write in transactions, two of them under one id, and an
auditor who reads what is committed. What it may find is told in `clients/transactor.py`."""

from tidelog.model import TopicPartition
from tidelog.sim.clients.transactor import Auditor, Ledger, Transactor
from tidelog.sim.cluster import Cluster
from tidelog.sim.transactions.stable import StableOffsets

TOPIC = "transacted"
IDS = ("a", "b", "a", "c")
"""Whoever takes an id over fences the one before."""


class Transactions:
    """Has the face of `workload.Workload`."""

    def __init__(self, cluster: Cluster, *, partitions: int | None = None) -> None:
        self.cluster = cluster
        self.ledger = Ledger()
        cluster.world.observers.append(StableOffsets(cluster.suite.ghosts))
        self.names = [TopicPartition(TOPIC, number) for number in range(partitions or 3)]
        self.transactors: list[Transactor] = []
        self.auditor: Auditor | None = None

    def __repr__(self) -> str:
        return f"<transactions {self.ledger!r}>"

    def start(self) -> None:
        cluster = self.cluster
        cluster.create(TOPIC, len(self.names), replicas=3)
        self.transactors = [
            Transactor(cluster.world, self.ledger, f"transactor-{number}", name, self.names)
            for number, name in enumerate(IDS)
        ]
        self.auditor = Auditor(cluster.world, self.names)
        for transactor in self.transactors:
            transactor.process.after(0, transactor.start)
        self.auditor.process.after(0, self.auditor.start)

    def stop(self) -> None:
        for transactor in self.transactors:
            transactor.stopped = True

    def settle(self) -> None:
        """Every transaction ends, and what is committed is what its applications were told, unless records may be
        lost."""
        cluster, auditor = self.cluster, self.auditor
        assert auditor is not None
        cluster.expect(lambda: all(transactor.idle for transactor in self.transactors), 120, "every transaction ends")
        cluster.settle()
        ghosts = cluster.suite.ghosts
        if any(ghost.loss_allowed for ghost in ghosts.partitions.values()):
            return  # what a coordinator forgot hangs until an operator ends it
        cluster.expect(
            lambda: all(auditor.has_read(name, ghosts.of(name).true_high_watermark) for name in self.names),
            90,
            "the last stable offset reaches the high watermark, and the auditor both",
        )
        self.ledger.check(auditor.found)
