"""Applications that copy the clients' topic exactly once: what they read, what they write and their group's positions
are part of one transaction each. Some kill themselves, pause, or have a double with the same transactional ID.

The group uses the classic or the consumer protocol, or has no members: then each transactional ID has its own
partitions, and a process that takes it over fences the previous one.
"""

from collections.abc import Sequence
from random import Random

from tidelog.client.options import ConsumerOptions
from tidelog.client.transactional import Versions
from tidelog.model import TopicPartition
from tidelog.sim.clients.copier import Copier, copied
from tidelog.sim.clients.other_producers import OLD_VERSIONS
from tidelog.sim.clients.transactor import Auditor, Ledger
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND

TOPIC = "copied"
GROUP = "copiers"
ASSIGNED = "assigned"
MODES = (ASSIGNED, "classic", "classic", "consumer")
STRATEGIES = (("range",), ("sticky",), ("cooperative-sticky",))
PAUSES = (50 * MILLI, 200 * MILLI, 500 * MILLI)
DOUBLES, OLD = 0.5, 0.6
CHURN = (2 * SECOND, 10 * SECOND)
STANDSTILL = (SECOND, 15 * SECOND)
PATIENCE_SECONDS = 120


class Copies:
    """`old` is the random generator of a seed in which copiers may speak versions before transaction version 2."""

    def __init__(
        self, cluster: Cluster, dice: Random, partitions: Sequence[TopicPartition], *, old: Random | None = None
    ) -> None:
        self.cluster = cluster
        self.dice = dice
        self.ledger = Ledger(reused=cluster.suite.ghosts.reused)
        self.targets = {name: TopicPartition(TOPIC, name.partition) for name in partitions}
        self.mode = dice.choice(MODES)
        self.count = dice.choice((1, 2, 2, 3))
        self.pause = (5 * MILLI, dice.choice(PAUSES))
        self.strategy = dice.choice(STRATEGIES)
        self.doubles = dice.random() < DOUBLES
        self.versions: Versions | None = old.choice(OLD_VERSIONS) if old is not None and old.random() < OLD else None
        self.copiers: list[Copier] = []
        self.stopped = False
        self.auditor: Auditor | None = None

    def __repr__(self) -> str:
        return f"<copies by {self.copiers} ({self.mode}), {self.ledger!r}>"

    def start(self) -> None:
        self.cluster.create(TOPIC, len(self.targets), replicas=3)
        self.copiers = [self._copier(number) for number in range(self._number)]
        if self.doubles and self.mode == ASSIGNED:
            self.copiers.append(self._copier(0, "double"))
        for copier in self.copiers:
            copier.producer.after(0, copier.start)
        self.auditor = Auditor(self.cluster.world, list(self.targets.values()), self.ledger, "copies-auditor")
        self.auditor.process.after(0, self.auditor.start)
        self._churn_later()

    @property
    def _number(self) -> int:
        return min(self.count, len(self.targets)) if self.mode == ASSIGNED else self.count

    def _copier(self, number: int, kind: str = "copier") -> Copier:
        subscribes, names = self.mode != ASSIGNED, sorted(self.targets)
        mine = names if subscribes else names[number :: self._number]
        return Copier(
            self.cluster,
            self.ledger,
            f"{kind}-{number}",
            f"copier-{number}",
            {name: self.targets[name] for name in mine},
            self._options(),
            subscribes=subscribes,
            pause=self.pause,
            versions=self.versions,
        )

    def _options(self) -> ConsumerOptions:
        return ConsumerOptions(
            client_id="copier",
            group_id=GROUP,
            group_protocol="consumer" if self.mode == "consumer" else "classic",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=20,
            partition_assignment_strategy=self.strategy,
            session_timeout_ms=4_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=10_000,
            fetch_max_wait_ms=1_000,
            request_timeout_ms=5_000,
            default_api_timeout_ms=10_000,
            metadata_max_age_ms=5_000,
        )

    # Churn.

    def _churn_later(self) -> None:
        self.cluster.world.after(self.dice.randint(*CHURN), self._churn)

    def _churn(self) -> None:
        if self.stopped:
            return
        copier = self.dice.choice(self.copiers)
        if self.dice.random() < 0.5:
            copier.die()
        else:
            copier.pause_for(self.dice.randint(*STANDSTILL))
        self._churn_later()

    # The end.

    def stop(self) -> None:
        """Stop the doubles; the others continue until everything is copied."""
        self.stopped = True
        for copier in [copier for copier in self.copiers if copier.name.startswith("double")]:
            copier.retire()

    def settle(self) -> None:
        """Check that every record was copied once and in order, unless records may be lost."""
        if self.auditor is None or self._is_lossy():
            return
        self.cluster.expect(self._is_copied, PATIENCE_SECONDS, "every record is copied")
        self.ledger.check(self.auditor.found)
        for source, target in self.targets.items():
            found = copied(self.auditor.found[target])
            wanted = [(str(source), offset) for offset in range(self._end(source))]
            assert found == wanted, f"I26: {source} was not copied exactly once: {_differences(found, wanted)}"

    def _is_copied(self) -> bool:
        found = self.auditor.found if self.auditor is not None else {}
        return all(len(found[target]) >= self._end(source) for source, target in self.targets.items())

    def _end(self, source: TopicPartition) -> int:
        return self.cluster.suite.ghosts.of(source).true_high_watermark

    def _is_lossy(self) -> bool:
        """Whether records may be missing: lost, or expired before they were copied because a clock was days ahead."""
        ghosts = self.cluster.suite.ghosts
        return ghosts.aged or bool(ghosts.with_losses())


def _differences(found: Sequence[tuple[str, int]], wanted: Sequence[tuple[str, int]]) -> str:
    missing = sorted(set(wanted) - set(found))
    again = sorted({copy for copy in found if found.count(copy) > 1})
    return f"{len(missing)} missing ({missing[:3]}), {len(again)} more than once ({again[:3]}), of {len(wanted)}"
