"""What the audit may find, as a table, and one thing that it found."""

from typing import NamedTuple


class Kind(NamedTuple):
    """`invariant`: whose violation it is, of REPLICATION.md or STORAGE.md; `is_broken`: whether it may not be."""

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
    CHECKSUM: Kind("I2", "a batch whose bytes are not those that its checksum was made of"),
    DAMAGED: Kind("I2", "bytes that cannot be a batch, so that what follows in the segment cannot be read"),
    TORN: Kind("I2", "a log that ends within a batch"),
    GAP: Kind("I2", "offsets that no batch holds, in a topic that is not compacted"),
    ORDER: Kind("I2", "a batch whose offsets were there already"),
    EPOCH_ORDER: Kind("I2", "a leader epoch below that of the batch before"),
    INDEX: Kind("I2", "an index entry that does not name a batch"),
    EPOCHS: Kind("I18", "a leader-epoch-checkpoint that is not that of the log beside it"),
    BEGINNING: Kind("I18", "a log that begins after its first epoch: segments are missing"),
    LINEAGE: Kind("I3", "a leader epoch that begins at different offsets on two replicas"),
    DIVERGENCE: Kind("I3", "two replicas that agree on the epoch at an offset and hold different bytes at or below it"),
    COMMITTED: Kind("I4", "two replicas with different batches below the high watermarks of both"),
    SHORT: Kind("I9", "a log that ends before what was committed or synced"),
    KEYS: Kind("I4", "a key of a compacted topic with different last values"),
    ACKNOWLEDGED: Kind("I10", "an acknowledged record that is not where it was acknowledged"),
    ELECTION: Kind("I5", "records that were committed and that the present leader never had: an unclean election"),
    ORPHAN: Kind("STORAGE", "a partition's folder that no replica of the cluster belongs to"),
    MISPLACED: Kind("STORAGE", "one replica in two log folders of a broker"),
    UNREADABLE: Kind("", "a replica, or a part of it, that could not be read", is_broken=False),
    TAIL: Kind("I3", "batches above the high watermark that the next leader will have cut off", is_broken=False),
    BEHIND: Kind("", "a replica that is not in sync and has not everything yet", is_broken=False),
    LEAVING: Kind("STORAGE", "a folder that is about to be deleted, or on its way to another disk", is_broken=False),
    HEARD: Kind("", "what brokers remember of unclean elections and truncations", is_broken=False),
}
"""In the order in which a report has them."""


class Finding(NamedTuple):
    """One thing. `partition` is -1 where it is about no partition; offsets [start, end), -1 where it is about none;
    `odd` is the broker that stands against all others, -1 where there is none."""

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
        """Whether it only says how many more there are of its kind."""
        return not self.brokers and self.start < 0

    @property
    def key(self) -> tuple[object, ...]:
        """What it has in common with the same finding of another look. A key has its values at the same offsets: what
        was compacted away between two replicas' reading has newer ones by then."""
        return (*self[:4], self.sentence) if self.kind == KEYS and self.brokers else self[:4]

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic


def in_order(findings: list[Finding]) -> list[Finding]:
    """What is broken first, then by place, then as the table has the kinds; counts last of their kind."""
    rank = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(
        set(findings),
        key=lambda each: (not each.is_broken, *each[1:3], rank[each.kind], each.is_count, each.start, each),
    )
