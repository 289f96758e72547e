"""The twenty mutants that the simulator must detect (REPLICATION.md), those of eligible leader replicas, former defects
put back, and how one is applied.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.sim.coverage import patched_function
from tidelog.sim.mutants import former, replacements

PARTITION = "tidelog.partition.partition:Partition"
LEADER = "tidelog.partition.leader:Leader"
LOG = "tidelog.log.log:Log"
PUSHES = "tidelog.node.controller_pushes:PushOrder"
ASSIGNMENTS = "tidelog.node.controller_pushes:Assignments"
TRANSACTIONS = "tidelog.coordinator.transaction"
IN_ANY_ORDER = (
    (f"{PUSHES}.is_stale", former.overtaken_by_epoch),
    (f"{PUSHES}.accept", former.take_in_any_order),
)
ALL_FORMER = "former"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken broker or client.

    `why`: what it does wrong. `patches`: what is replaced, as `module:name` or `module:Class.name`. `generation`: of
    truncation. `expects`: the invariants that it breaks; another one may detect it.
    """

    name: str
    why: str
    patches: tuple[tuple[str, Callable[..., Any]], ...] = ()
    generation: str = "kip_320"
    expects: tuple[str, ...] = ()


MUTANTS = (
    Mutant(
        "truncate-to-high-watermark",
        "a new follower truncates its log to its high watermark",
        generation="high_watermark",
        expects=("I20", "I9", "I10"),
    ),
    Mutant(
        "kip-101",
        "a follower uses the leader's end offset for its own latest epoch, although the leader may not know that epoch",
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
        "a follower joins the ISR before it has reached the start of the leader's epoch",
        ((f"{LEADER}.may_join", replacements.join_at_high_watermark),),
        expects=("I15", "I9"),
    ),
    Mutant(
        "watermark-over-committed-isr",
        "the high watermark passes a replica that is about to join the ISR",
        ((f"{LEADER}.high_watermark", replacements.over_committed_isr),),
        expects=("I7", "I9"),
    ),
    Mutant(
        "alter-partition-without-broker-epoch",
        "a broker that lost its log joins the ISR because of what it had before",
        (("tidelog.controller.commands.isr:_eligible", replacements.eligible_in_any_life),),
        expects=("I15", "I9"),
    ),
    Mutant(
        "ack-before-isr",
        "acks=all is answered before the in-sync replicas have the records",
        (("tidelog.api.records.produce:safe_end", replacements.safe_when_appended),),
        expects=("I25", "I10"),
    ),
    Mutant(
        "watermark-below-min-isr",
        "the high watermark advances although fewer than min.insync.replicas are in sync",
        ((f"{PARTITION}.is_under_min_isr", replacements.never_held),),
        expects=("I7",),
    ),
    Mutant(
        "consumer-reads-to-the-end",
        "consumers read uncommitted records",
        (("tidelog.api.records.fetch_partition:readable_end", replacements.readable_to_the_end),),
        expects=("I22",),
    ),
    Mutant(
        "lso-ignores-markers",
        "the last stable offset passes a transaction whose marker is not committed yet",
        (("tidelog.log.producers:Producers.last_stable_offset", replacements.stable_without_markers),),
        expects=("I27", "I22"),
    ),
    Mutant(
        "producers-not-truncated",
        "a truncated log keeps the producer state of removed records",
        ((f"{LOG}._truncate_producers", replacements.keep_producers),),
        expects=("I26", "I10"),
    ),
    Mutant(
        "dedupe-lost",
        "a new leader forgets the producer state",
        ((f"{PARTITION}._lead", replacements.lead_without_producers),),
        expects=("I26",),
    ),
    Mutant(
        "recovery-point-before-fsync",
        "the recovery point advances before the records are durable",
        ((f"{LOG}.unsynced", replacements.recover_from_here),),
        expects=("I30", "I2", "I9"),
    ),
    Mutant(
        "clean-shutdown-stays",
        "the clean shutdown file stays valid for later lives",
        (("tidelog.node.replicas:take_clean_shutdown", replacements.read_clean_shutdown),),
        expects=("I30", "I2", "I9"),
    ),
    Mutant(
        "compaction-ascending",
        "compacted segments are renamed from first to last",
        (("tidelog.log.compaction.replacement:offer", replacements.offer_ascending),),
        expects=("I30", "I31"),
    ),
    Mutant(
        "anybody-may-follow",
        "a broker without a replica fetches as a follower",
        (("tidelog.api.records.fetch_partition:check_follower", replacements.anybody_may_follow),),
        expects=("I21",),
    ),
    Mutant(
        "end-txn-without-bump",
        "the end of a transaction does not raise the producer's epoch",
        (
            ("tidelog.coordinator.transaction.transaction:Transaction.ending", replacements.ending_in_its_epoch),
            ("tidelog.log.producers:_may_end", replacements.may_end_in_its_epoch),
        ),
        expects=("I28",),
    ),
    Mutant(
        "checkpoint-in-place",
        "checkpoints are overwritten instead of replaced",
        (("tidelog.sim.disk:SimDisk.replace", replacements.overwrite),),
        expects=("I18", "I30"),
    ),
    Mutant(
        "epochs-not-truncated",
        "a truncated log keeps epochs of removed records",
        (("tidelog.log.epochs:EpochCache.truncate_from_end", replacements.keep_epochs),),
        expects=("I18", "I19"),
    ),
    Mutant(
        "metadata-out-of-order",
        "controller requests are applied in their order of arrival",
        (
            (f"{PARTITION}.is_newer", replacements.all_is_newer),
            ("tidelog.node.broker_state:BrokerState.check_controller", replacements.any_controller),
        ),
        expects=("I13", "I12"),
    ),
)


FORMER = (
    Mutant(
        "late-pushes",
        "a controller's request is applied however late it arrives",
        IN_ANY_ORDER,
        expects=("I48", "I29", "liveness"),
    ),
    Mutant(
        "late-stop-replica",
        "a late StopReplica deletes the replica of the next topic of that name",
        (*IN_ANY_ORDER, (f"{ASSIGNMENTS}.stop", former.stop_by_name)),
        expects=("I48", "I32", "I5"),
    ),
    Mutant(
        "late-leader-and-isr",
        "a late LeaderAndIsr deletes the replica of the next topic of that name",
        (*IN_ANY_ORDER, (f"{ASSIGNMENTS}._create", former.create_by_name)),
        expects=("I48", "I32", "I5"),
    ),
    Mutant(
        "made-up-controller",
        "a controller epoch that no controller has makes a broker reject all controllers",
        ((f"{PUSHES}.accept", former.take_from_anybody),),
        expects=("I48", "liveness"),
    ),
    Mutant(
        "compacted-epochs-forgotten",
        "recovery forgets the epochs whose batches compaction removed",
        (("tidelog.log.recovery:agreed", former.epochs_of_batches),),
        expects=("I3", "I4", "I31"),
    ),
    Mutant(
        "missing-folders-ignored",
        "a clean shutdown counts although log directories are missing or new",
        (
            ("tidelog.controller.leaders:Life.holds", former.holds_whatever_is_missing),
            (f"{ASSIGNMENTS}._may_be_in_missing_folder", former.nothing_is_missing),
        ),
        expects=("I17", "I5", "I47"),
    ),
    Mutant(
        "positions-of-an-earlier-topic",
        "a recreated topic keeps the offsets of the previous one",
        (
            ("tidelog.coordinator.group.coordinator:GroupCoordinator.topics_deleted", former.forget_what_is_gone),
            ("tidelog.coordinator.group.offset_fetch:_is_of_another_topic", former.is_of_another_id),
        ),
        expects=("liveness", "I29"),
    ),
    Mutant(
        "coordinator-loads-rot",
        "a coordinator accepts damaged records, and treats the readable part of its log as all of it",
        (("tidelog.node.coordinating:Coordinating._load", former.load_unexamined),),
        expects=("I51", "I29", "I28"),
    ),
    Mutant(
        "log-ends-of-earlier-lives",
        "the most complete log is elected by a log end that an earlier life of a broker reported",
        (("tidelog.controller.commands.elections:LogEnds.answered", former.answered_for_any_life),),
        expects=("I17", "I5"),
    ),
    Mutant(
        "replaced-coordinator-answers",
        "a replaced transaction coordinator answers older clients from memory",
        (
            (f"{TRANSACTIONS}.operations:_repeat_end", former.already_from_memory),
            (f"{TRANSACTIONS}.coordinator:add", former.add_from_memory),
        ),
        expects=("I23", "I28"),
    ),
    Mutant(
        "transaction-begins-anywhere",
        "a transaction of version 2 begins in a partition with any batch that arrives first",
        (("tidelog.log.producers:Producers.check", former.check_of_any_version),),
        expects=("I26", "I23", "liveness"),
    ),
    Mutant(
        "early-end-is-fenced",
        "a producer that ends its next transaction before the previous one's markers are written gets PRODUCER_FENCED",
        ((f"{TRANSACTIONS}.coordinator:end", former.end_is_fenced_while_markers_go_out),),
        expects=("I50",),
    ),
    Mutant(
        "several-unacknowledged",
        "Tidelog's producer has five batches in flight before a broker knows it",
        (("tidelog.client.sending.sequences:Sequences.may_send", former.may_send_unacknowledged),),
        expects=("I26",),
    ),
)
"""Fixed defects of brokers and clients, as they were."""


ELIGIBLE = (
    Mutant(
        "elr-keeps-unclean",
        "a broker that came back from an unclean end may still lead as an eligible leader replica",
        (("tidelog.controller.leaders:has_lost", replacements.never_lost),),
        expects=("I45", "I17", "I5"),
    ),
    Mutant(
        "elr-ignored-by-leader",
        "the leader commits as soon as its own min.insync.replicas allows it, whatever the controller knows",
        ((f"{PARTITION}.lacks_replicas", replacements.own_least_only),),
        expects=("I7", "I45"),
    ),
)
"""Brokers that keep eligible leader replicas wrongly: only seeds that have them can detect it (`plan.NEW_SEEDS`)."""

EVERY = (*MUTANTS, *FORMER, *ELIGIBLE)


def find(name: str) -> Mutant:
    """Return the mutant of this name; LookupError if there is none."""
    for mutant in EVERY:
        if mutant.name == name:
            return mutant
    raise LookupError(f"{name!r} is not a mutant; expected one of {', '.join(mutant.name for mutant in EVERY)}")


def named(names: Sequence[str]) -> list[Mutant]:
    """Return the mutants of the names; without names all that must be detected, and for `former` all
    former defects.
    """
    found: list[Mutant] = []
    for name in names:
        found += FORMER if name == ALL_FORMER else [find(name)]
    return found or list(MUTANTS)


def _instead(replacement: Callable[..., Any], _plain: Callable[..., Any]) -> Callable[..., Any]:
    return replacement


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Break everything that is created within the context in this way."""
    with ExitStack() as undo:
        for target, replacement in mutant.patches:
            undo.enter_context(patched_function(target, partial(_instead, replacement)))
        yield
