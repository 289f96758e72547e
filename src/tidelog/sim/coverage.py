"""Count which states of the rules a run reached, and name those that it never reached.

Most states come from the brokers' events and the world's counters. The others are counted from outside: a probe wraps a
function of the core and counts the calls that returned a certain result. Probes do not change a run.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from typing import Any, NamedTuple
from unittest.mock import patch

from tidelog.coordinator.group.consumer.member import MemberState
from tidelog.coordinator.transaction.transaction import RAISES_EPOCH
from tidelog.errors import ApiError

PARTITION = "tidelog.partition.partition:Partition"
LOG = "tidelog.log.log:Log"
LEADERS = "tidelog.controller.leaders"
ELECTIONS = "tidelog.controller.commands.elections"
GROUPS = "tidelog.coordinator.group"
TRANSACTIONS = "tidelog.coordinator.transaction"
COUNTED: Mapping[str, str] = {
    "became leader": "partition.leader",
    "became follower": "partition.follower",
    "ISR grew": "isr.expand",
    "ISR shrank": "isr.shrink",
    "controller elected": "controller.elected",
    "controller resigned": "controller.resigned",
    "broker shut down cleanly": "broker.leaving",
    "broker registration removed": "broker.gone",
    "log directory failed": "folder.failed",
    "log directory full": "folder.full",
    "log directory writable again": "folder.room",
    "topic deleted": "topic.deleted",
    "replica deleted": "replica.deleted",
    "coordinator loaded": "coordinator.loaded",
    "consumer group assigned": "group.assigned",
    "consumer member fenced": "group.member_fenced",
    "group upgraded": "group.upgraded",
    "records copied": "copies: committed",
    "copies aborted": "copies: aborted",
    "log compacted": "log.compacted",
    "session expired": "session expiry",
    "broker killed": "kill",
    "broker lost power": "power loss",
    "broker process stopped cleanly": "stop",
    "broker halted": "halt",
    "broker paused": "pause",
    "broker busy with one input": "busy",
    "replica moved to another log directory": "replica.moved",
    "store silent during a controller's term": "store silent",
    "clock days ahead": "clock days ahead",
    "log directory empty at a start": "folder replaced",
    "log directory missing at a start": "folder away",
    "log directory at another path": "folder renamed",
    "bit flipped in a coordinator's log": "rot for a coordinator",
    "bit rot repaired": "log.repaired",
    "power lost after a log end was reported": "power loss, end told",
    "leader killed after a compaction while followers were down": "killed after compaction, left alone",
}
"""States counted from the brokers' events and the world's counters, by their names there."""


def patched_function(target: str, make: Callable[[Any], Any]) -> AbstractContextManager[Any]:
    """Replace a function while the context lasts, for mutants and coverage.

    `target` is `module:name` or `module:Class.name`, where it is looked up; `make` gets the original and returns the
    replacement.
    """
    module, _, path = target.partition(":")
    owner: Any = import_module(module)
    *owners, name = path.split(".")
    for part in owners:
        owner = getattr(owner, part)
    return patch.object(owner, name, make(getattr(owner, name)))


Counter = Callable[[str], None]


class Probe(NamedTuple):
    """Which calls of a function to count.

    `target` is as in `patched_function`. `returned` selects calls by their result, `refused` those that raise
    ApiError, and `before` selects by the arguments and counts before the call.
    """

    target: str
    returned: Callable[[Any], bool] | None = None
    refused: bool = False
    before: Callable[..., bool] | None = None


def always(_: object) -> bool:
    return True


def is_unrevoked(current: Any) -> bool:
    return bool(current.state == MemberState.UNREVOKED_PARTITIONS)


def uses_old_version(_machine: Any, request: Any, *_: Any) -> bool:
    return bool(request.version < RAISES_EPOCH)


def waits_for_a_marker(_response: Any, pending: Any) -> bool:
    return bool(pending)


PROBES: Mapping[str, Probe] = {
    # Elections (rule 8).
    "election: first eligible replica": Probe(
        f"{LEADERS}:_elect_standing", lambda election: election.state is not None
    ),
    "election: most complete log": Probe(f"{ELECTIONS}:elect_by_logs", always),
    "election: unclean": Probe(f"{LEADERS}:elect_unclean", lambda election: election.unclean),
    "election: preferred": Probe(f"{ELECTIONS}:elect_preferred", lambda state: state is not None),
    "election: no eligible replica": Probe(f"{LEADERS}:_without_leader", lambda election: election.state is not None),
    # The rules of a replica.
    "high watermark held below min.insync.replicas": Probe(f"{PARTITION}.is_under_min_isr", bool),
    "fenced: leader epoch": Probe(f"{PARTITION}.check_epoch", refused=True),
    "fenced: old assignment": Probe(f"{PARTITION}.is_newer", lambda is_newer: not is_newer),
    "fenced: old controller or broker": Probe("tidelog.node.broker_state:BrokerState.check_controller", bool),
    "fenced: ISR change": Probe("tidelog.controller.commands.isr:check_epochs", bool),
    "rejected: ISR change": Probe("tidelog.controller.commands.isr:check_isr", bool),
    "diverging log reported": Probe(f"{PARTITION}.diverging", lambda end: end is not None),
    "log restarted at a later offset": Probe(f"{PARTITION}.start_over_at", always),
    "request expired in purgatory": Probe("tidelog.node.purgatory:Purgatory.wake", always),
    "replica that may be in a missing directory": Probe(
        "tidelog.node.controller_pushes:Assignments._may_be_in_missing_folder", bool
    ),
    "replica not created because a directory is offline": Probe(
        "tidelog.node.replicas:HeldReplicas.create", refused=True
    ),
    "election with a missing log directory": Probe(f"{LEADERS}:Life.holds", lambda holds: not holds),
    "consumer sent to a follower": Probe(
        "tidelog.api.records.fetch_partition:closest_replica", lambda broker: broker is not None
    ),
    # The log.
    "segment rolled": Probe(f"{LOG}.roll", always),
    "log truncated": Probe(f"{LOG}.truncate_to", bool),
    "old segments deleted": Probe(f"{LOG}.delete_old_segments", bool),
    "segment recovered": Probe("tidelog.log.recovery:_recover_segment", always),
    "torn tail truncated": Probe("tidelog.log.recovery:_recover_segment", lambda result: not result[1]),
    "compaction finished at start": Probe("tidelog.log.interrupted:_swap_in", always),
    "producer snapshot loaded": Probe("tidelog.log.snapshots:Snapshots.load", lambda producers: bool(len(producers))),
    "duplicate batch": Probe("tidelog.log.producers:Producers.check", lambda earlier: earlier is not None),
    "sequence rejected": Probe("tidelog.log.producers:Producers.check", refused=True),
    "inactive producer expired": Probe("tidelog.log.producers:Producers.expire", bool),
    # Groups.
    "group rebalanced": Probe(f"{GROUPS}.classic.rebalance:complete_join", always),
    "static member replaced": Probe(f"{GROUPS}.classic.join:replace_static_member", always),
    "rejected: classic member": Probe(f"{GROUPS}.classic.group:ClassicGroup.check_member", refused=True),
    "rejected: offset commit": Probe(f"{GROUPS}.offset_commit:check_classic_commit", refused=True),
    "consumer member revokes partitions": Probe(f"{GROUPS}.consumer.assignment:reconcile", is_unrevoked),
    "fenced: member epoch": Probe(f"{GROUPS}.consumer.heartbeat:check_epoch", refused=True),
    "rejected: consumer member's offset commit": Probe(f"{GROUPS}.offset_commit:check_consumer_commit", refused=True),
    "static consumer member replaced": Probe(f"{GROUPS}.consumer.member_lookup:_replace_static_member", always),
    "instance ID in use": Probe(f"{GROUPS}.consumer.heartbeat:joining_static_member", refused=True),
    "static member left temporarily": Probe(f"{GROUPS}.consumer.heartbeat:_leave_temporarily", always),
    "group downgraded": Probe(f"{GROUPS}.consumer.conversion:downgrade", always),
    "classic member of a consumer group": Probe(f"{GROUPS}.consumer.classic_members:sync", always),
    # Transactions.
    "offsets in a transaction": Probe(f"{GROUPS}.offset_commit:commit_in_transaction", always),
    "rejected: offsets in a transaction": Probe(f"{GROUPS}.offset_commit:commit_in_transaction", refused=True),
    "offsets wait for a marker": Probe(f"{GROUPS}.offset_fetch:_mark_unstable", before=waits_for_a_marker),
    "offsets of a transaction committed or aborted": Probe(f"{GROUPS}.offset_table:PendingOffsets.take", bool),
    "old producer ended a transaction": Probe(f"{TRANSACTIONS}.coordinator:end", before=uses_old_version),
    "old producer added partitions": Probe(f"{TRANSACTIONS}.coordinator:add", before=uses_old_version),
    "old producer verified": Probe(f"{TRANSACTIONS}.coordinator:verify", always),
    "producer fenced": Probe(f"{TRANSACTIONS}.operations:_fenced", always),
}


def states(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how often each state was reached, including those never reached."""
    counted = {name: counts.get(kind, 0) for name, kind in COUNTED.items()}
    return {**counted, **{name: counts.get(name, 0) for name in PROBES}}


def never(counts: Mapping[str, int]) -> list[str]:
    return [name for name, count in states(counts).items() if not count]


@contextmanager
def probed(count: Counter) -> Iterator[None]:
    with ExitStack() as undo:
        for name, probe in PROBES.items():
            undo.enter_context(patched_function(probe.target, partial(_around, name, probe, count)))
        yield


def _around(name: str, probe: Probe, count: Counter, plain: Callable[..., Any]) -> Callable[..., Any]:
    returned, before = probe.returned, probe.before

    @wraps(plain)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        if before is not None and before(*arguments, **options):
            count(name)
        try:
            result = plain(*arguments, **options)
        except ApiError:
            if probe.refused:
                count(name)
            raise
        if returned is not None and returned(result):
            count(name)
        return result

    return wrapper
