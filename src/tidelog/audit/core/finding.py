"""The kinds of findings, as a table, and one finding."""

from typing import NamedTuple


class Kind(NamedTuple):
    """`invariant`: the violated invariant of REPLICATION.md or STORAGE.md; `is_broken`: whether the finding is an
    error."""

    invariant: str
    meaning: str
    is_broken: bool = True


CHECKSUM, DAMAGED, TORN, GAP, ORDER, EPOCH_ORDER, INDEX = (
    "checksum", "damaged", "torn", "gap", "order", "epoch-order", "index",
)  # fmt: skip
EPOCHS, LINEAGE, DIVERGENCE, COMMITTED, SHORT, BEGINNING = (
    "epochs", "lineage", "divergence", "committed-divergence", "short", "beginning",
)  # fmt: skip
KEYS, ACKNOWLEDGED, ELECTION, ORPHAN, MISPLACED, UNREADABLE = (
    "keys", "acknowledged-lost", "election-loss", "orphan", "misplaced", "unreadable",
)  # fmt: skip
TAIL, LEAVING, BEHIND, HEARD = "tail", "leaving", "behind", "heard"

KINDS = {
    CHECKSUM: Kind("I2", "a batch whose checksum does not match its bytes"),
    DAMAGED: Kind("I2", "bytes that are not a valid batch; the rest of the segment cannot be read"),
    TORN: Kind("I2", "a log that ends within a batch"),
    GAP: Kind("I2", "offsets without a batch, in a topic that is not compacted"),
    ORDER: Kind("I2", "a batch that repeats offsets of an earlier batch"),
    EPOCH_ORDER: Kind("I2", "a leader epoch below that of the previous batch"),
    INDEX: Kind("I2", "an index entry that does not point to a batch"),
    EPOCHS: Kind("I18", "a leader-epoch-checkpoint that does not match the log beside it"),
    BEGINNING: Kind("I18", "a log that begins after its first epoch: segments are missing"),
    LINEAGE: Kind("I3", "a leader epoch that begins at different offsets on two replicas"),
    DIVERGENCE: Kind("I3", "two replicas that agree on the epoch at an offset and hold different bytes at or below it"),
    COMMITTED: Kind("I4", "two replicas with different batches below the high watermarks of both"),
    SHORT: Kind("I9", "a log that ends before what was committed or synced"),
    KEYS: Kind("I4", "a key of a compacted topic with different last values"),
    ACKNOWLEDGED: Kind("I10", "an acknowledged record that is missing at its acknowledged offset"),
    ELECTION: Kind("I5", "committed records that the current leader never had: an unclean election"),
    ORPHAN: Kind("STORAGE", "a partition folder that does not belong to any replica of the cluster"),
    MISPLACED: Kind("STORAGE", "one replica in two log folders of a broker"),
    UNREADABLE: Kind("", "a replica that could not be read, wholly or in part", is_broken=False),
    TAIL: Kind("I3", "batches above the high watermark, which the next leader will truncate", is_broken=False),
    BEHIND: Kind("", "a replica that is out of sync and behind", is_broken=False),
    LEAVING: Kind("STORAGE", "a folder that is about to be deleted, or being moved to another disk", is_broken=False),
    HEARD: Kind("", "unclean elections and truncations that brokers reported", is_broken=False),
}
"""In the order of a report."""


class Finding(NamedTuple):
    """One finding. `partition` is -1 if it concerns no partition; offsets [start, end), -1 if it concerns none; `odd`
    is the one broker that differs from all others, -1 if there is none."""

    kind: str
    topic: str
    partition: int
    brokers: tuple[int, ...]
    sentence: str
    start: int = -1
    end: int = -1
    odd: int = -1

    @property
    def is_broken(self) -> bool:
        return KINDS[self.kind].is_broken

    @property
    def is_count(self) -> bool:
        """Whether it only counts further findings of its kind."""
        return not self.brokers and self.start < 0

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the same finding in a second audit. For a key its sentence counts, with the values at their
        offsets: a key whose old value was compacted away between two reads has newer values by then."""
        return (*self[:4], self.sentence) if self.kind == KEYS and self.brokers else self[:4]

    @property
    def location(self) -> str:
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic


def in_order(findings: list[Finding]) -> list[Finding]:
    """Errors first, then by partition, then in the order of the table; counts last within their kind."""
    rank = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(
        set(findings),
        key=lambda each: (not each.is_broken, *each[1:3], rank[each.kind], each.is_count, each.start, each),
    )
