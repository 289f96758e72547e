"""The twenty mutants that the simulator must find out (REPLICATION.md), and how one is applied and undone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.sim.mutants import replication, storage, transactions
from tidelog.sim.patching import replaced


@dataclass(frozen=True, slots=True)
class Mutant:
    """`why`: what it does wrong. `patches`: what is replaced, as `module:name` or `module:Class.name`. `generation`: of
    truncation. `expects`: the invariants that it breaks; it may be found out by another."""

    name: str
    why: str
    patches: tuple[tuple[str, Callable[..., Any]], ...] = ()
    generation: str = "kip_320"
    expects: tuple[str, ...] = ()


PARTITION = "tidelog.partition.partition:Partition"
LEADER = "tidelog.partition.leader:Leader"
CONTENTS = "tidelog.log.contents:Contents"

MUTANTS = (
    Mutant(
        "truncate-to-high-watermark",
        "a new follower cuts its log to its high watermark",
        generation="high_watermark",
        expects=("I20", "I9", "I10"),
    ),
    Mutant(
        "kip-101",
        "a follower takes the leader's end offset for its own latest epoch, though the leader may not know that epoch",
        generation="kip_101",
        expects=("I3", "I9", "I12"),
    ),
    Mutant(
        "kip-279-unfenced",
        "a leader that was replaced still answers followers of the new epoch",
        generation="kip_279",
        expects=("I20", "I21", "I9"),
    ),
    Mutant(
        "isr-without-epoch-start",
        "a follower joins the ISR before it has reached the leader's epoch",
        ((f"{LEADER}.may_join", replication.join_at_high_watermark),),
        expects=("I15", "I9"),
    ),
    Mutant(
        "watermark-over-committed-isr",
        "the high watermark passes a replica that is about to join the ISR",
        ((f"{LEADER}.high_watermark", replication.over_committed_isr),),
        expects=("I7", "I9"),
    ),
    Mutant(
        "alter-partition-without-broker-epoch",
        "a broker that lost its log is taken into the ISR for what it had before",
        (("tidelog.controller.commands.isr:_eligible", replication.eligible_in_any_life),),
        expects=("I15", "I9"),
    ),
    Mutant(
        "ack-before-isr",
        "acks=all is answered before the in-sync replicas have the records",
        (("tidelog.api.records.produce:safe_end", replication.safe_when_appended),),
        expects=("I25", "I10"),
    ),
    Mutant(
        "watermark-below-min-isr",
        "the high watermark moves although fewer than min.insync.replicas are in sync",
        ((f"{PARTITION}.is_held", replication.never_held),),
        expects=("I7",),
    ),
    Mutant(
        "consumer-reads-to-the-end",
        "consumers read what is not committed",
        (("tidelog.api.records.fetch:readable_end", replication.readable_to_the_end),),
        expects=("I22",),
    ),
    Mutant(
        "lso-ignores-markers",
        "the last stable offset passes a transaction whose marker is not committed yet",
        (("tidelog.log.producers:Producers.last_stable_offset", transactions.stable_without_markers),),
        expects=("I27", "I22"),
    ),
    Mutant(
        "producers-not-truncated",
        "a truncated log remembers what producers had sent",
        ((f"{CONTENTS}._truncate_producers", storage.keep_producers),),
        expects=("I26", "I10"),
    ),
    Mutant(
        "dedupe-lost",
        "a new leader forgets what producers had sent",
        ((f"{PARTITION}._lead", replication.lead_without_producers),),
        expects=("I26",),
    ),
    Mutant(
        "recovery-point-before-fsync",
        "the recovery point moves before the records are durable",
        ((f"{CONTENTS}.unsynced", storage.recover_from_here),),
        expects=("I30", "I2", "I9"),
    ),
    Mutant(
        "clean-shutdown-stays",
        "the file of a clean stop vouches for later lives",
        (("tidelog.node.replicas:take_clean_shutdown", storage.read_clean_shutdown),),
        expects=("I30", "I2", "I9"),
    ),
    Mutant(
        "compaction-ascending",
        "compacted segments get their names from the first to the last",
        (("tidelog.log.compaction.replacement:offer", storage.offer_ascending),),
        expects=("I30", "I31"),
    ),
    Mutant(
        "anybody-may-follow",
        "a broker without a replica fetches as a follower",
        (("tidelog.api.records.fetch:check_follower", replication.anybody_may_follow),),
        expects=("I21",),
    ),
    Mutant(
        "end-txn-without-bump",
        "the end of a transaction leaves the producer's epoch as it is",
        (
            ("tidelog.coordinator.transaction.transaction:Transaction.ending", transactions.ending_in_its_epoch),
            ("tidelog.log.producers:_may_end", transactions.may_end_in_its_epoch),
        ),
        expects=("I28",),
    ),
    Mutant(
        "checkpoint-in-place",
        "checkpoints are overwritten, not replaced",
        (("tidelog.sim.disk:SimDisk.replace", storage.overwrite),),
        expects=("I18", "I30"),
    ),
    Mutant(
        "epochs-not-truncated",
        "a truncated log remembers epochs that it no longer has",
        (("tidelog.log.epochs:EpochCache.truncate_from_end", storage.keep_epochs),),
        expects=("I18", "I19"),
    ),
    Mutant(
        "metadata-out-of-order",
        "what controllers say is obeyed in the order in which it comes",
        (
            (f"{PARTITION}.is_news", replication.all_is_news),
            ("tidelog.node.local:LocalBroker.check_controller", replication.any_controller),
        ),
        expects=("I13", "I12"),
    ),
)


def find(name: str) -> Mutant:
    """LookupError where there is no such mutant."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise LookupError(f"there is no mutant {name}: {', '.join(mutant.name for mutant in MUTANTS)}")


def _instead(replacement: Callable[..., Any], _plain: Callable[..., Any]) -> Callable[..., Any]:
    return replacement


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Everything that is built within is broken in this way."""
    with ExitStack() as undo:
        for target, replacement in mutant.patches:
            undo.enter_context(replaced(target, partial(_instead, replacement)))
        yield
