"""Which states a run came to: how often each thing happened that the rules speak of, and what never happened.

Most of it the brokers tell by their events, and the world by its counts. The rest is seen from outside: a probe stands
around a function of the core and counts the calls that went a certain way. Probes change nothing of a run.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any, NamedTuple

from tidelog.errors import ApiError
from tidelog.sim.patching import replaced

Counter = Callable[[str], None]


class Probe(NamedTuple):
    """`target` as in `patching`. Counted is a call whose result `gave`, or, where the call is refused with an ApiError,
    one with `refused`; `before` looks at the arguments and counts before the call."""

    target: str
    gave: Callable[[Any], bool] | None = None
    refused: bool = False
    before: Callable[..., bool] | None = None


def always(_: object) -> bool:
    return True


def is_due(waiting: Any, now: int) -> bool:
    return waiting.next_deadline is not None and waiting.next_deadline <= now


PARTITION = "tidelog.partition.partition:Partition"
CONTENTS = "tidelog.log.contents:Contents"
LEADERS = "tidelog.controller.leaders"
ELECTIONS = "tidelog.controller.commands.elections"

PROBES: Mapping[str, Probe] = {
    # Elections (rule 8).
    "election: first that counts": Probe(f"{LEADERS}:_elect_standing", lambda election: election.state is not None),
    "election: most complete log": Probe(f"{ELECTIONS}:elect_by_logs", always),
    "election: unclean": Probe(f"{LEADERS}:_elect_unclean", lambda election: election.unclean),
    "election: preferred": Probe(f"{ELECTIONS}:elect_preferred", lambda state: state is not None),
    "election: nobody counts": Probe(f"{LEADERS}:_without_leader", lambda election: election.state is not None),
    # The rules of a replica.
    "watermark held below min": Probe(f"{PARTITION}.is_held", bool),
    "fenced: leader epoch": Probe(f"{PARTITION}.check_epoch", refused=True),
    "fenced: old assignment": Probe(f"{PARTITION}.is_news", lambda is_news: not is_news),
    "fenced: old controller or broker": Probe("tidelog.node.local:LocalBroker.check_controller", bool),
    "fenced: ISR change": Probe("tidelog.controller.commands.isr:check_epochs", bool),
    "refused: ISR change": Probe("tidelog.controller.commands.isr:check_isr", bool),
    "diverging log told": Probe(f"{PARTITION}.diverging", lambda end: end is not None),
    "log started over": Probe(f"{PARTITION}.start_over_at", always),
    "request expired in purgatory": Probe("tidelog.node.waiting:Waiting.expire", before=is_due),
    # The log.
    "rolled": Probe(f"{CONTENTS}.roll", always),
    "truncated": Probe(f"{CONTENTS}.truncate_to", bool),
    "old segments deleted": Probe(f"{CONTENTS}.delete_old_segments", bool),
    "recovered": Probe("tidelog.log.recovery:_recover_segment", always),
    "torn tail cut": Probe("tidelog.log.recovery:_recover_segment", lambda result: not result[1]),
    "compaction finished at start": Probe("tidelog.log.interrupted:_swap_in", always),
    "producer snapshot loaded": Probe("tidelog.log.snapshots:Snapshots.load", lambda producers: bool(len(producers))),
    "duplicate batch": Probe("tidelog.log.producers:Producers.check", lambda earlier: earlier is not None),
    "sequence refused": Probe("tidelog.log.producers:Producers.check", refused=True),
    # Groups.
    "group rebalanced": Probe("tidelog.coordinator.group.membership.rebalance:complete_join", always),
}

TOLD: Mapping[str, str] = {
    "became leader": "partition.leader",
    "became follower": "partition.follower",
    "ISR grew": "isr.expand",
    "ISR shrank": "isr.shrink",
    "controller elected": "controller.elected",
    "controller resigned": "controller.resigned",
    "broker left in order": "broker.leaving",
    "broker gone": "broker.gone",
    "log folder failed": "folder.failed",
    "log folder full": "folder.full",
    "log folder has room again": "folder.room",
    "topic deleted": "topic.deleted",
    "replica deleted": "replica.deleted",
    "coordinator loaded": "coordinator.loaded",
    "log compacted": "log.compacted",
    "session expired": "session expiry",
    "broker killed": "kill",
    "broker lost its power": "power loss",
    "broker stopped in order": "stop",
    "broker halted": "halt",
    "broker paused": "pause",
}
"""What the brokers' events and the world's counts tell, by the name it has there."""


def states(counts: Mapping[str, int]) -> dict[str, int]:
    """How often each state was reached, those never reached included."""
    told = {name: counts.get(kind, 0) for name, kind in TOLD.items()}
    return {**told, **{name: counts.get(name, 0) for name in PROBES}}


def never(counts: Mapping[str, int]) -> list[str]:
    return [name for name, count in states(counts).items() if not count]


@contextmanager
def probed(count: Counter) -> Iterator[None]:
    with ExitStack() as undo:
        for name, probe in PROBES.items():
            undo.enter_context(replaced(probe.target, partial(_around, name, probe, count)))
        yield


def _around(name: str, probe: Probe, count: Counter, plain: Callable[..., Any]) -> Callable[..., Any]:
    gave, before = probe.gave, probe.before

    @wraps(plain)
    def watched(*arguments: Any, **options: Any) -> Any:
        if before is not None and before(*arguments, **options):
            count(name)
        try:
            result = plain(*arguments, **options)
        except ApiError:
            if probe.refused:
                count(name)
            raise
        if gave is not None and gave(result):
            count(name)
        return result

    return watched
