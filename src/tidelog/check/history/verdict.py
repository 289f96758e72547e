"""The verdict: every kind of anomaly, what it means, and whether Kafka's promises allow it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.check.history.anomalies import (
    aborts,
    commits,
    cycles,
    losses,
    offsets_and_values,
    polling,
    scanning,
    sending,
)
from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts
from tidelog.check.history.figures import figures
from tidelog.check.history.operation import Header, History


class Kind(NamedTuple):
    meaning: str
    is_allowed: bool = False


KINDS: Mapping[str, Kind] = {
    losses.LOST: Kind("acknowledged, never read, though something behind it was"),
    losses.UNSEEN: Kind("acknowledged, and nobody had read it at the end"),
    offsets_and_values.DUPLICATE: Kind("one value at two offsets"),
    offsets_and_values.INCONSISTENT: Kind("two values at one offset"),
    offsets_and_values.UNWRITTEN: Kind("read, and nobody sent it"),
    aborts.ABORTED: Kind("read, though its send or transaction failed (G1a)"),
    aborts.PRECOMMITTED: Kind("a transaction read its own send"),
    polling.INTERNAL_SKIP: Kind("a poll left out a record between two others"),
    polling.INTERNAL_NONMONOTONIC: Kind("a poll went back"),
    polling.SKIP: Kind("a consumer's next poll left out a record"),
    polling.NONMONOTONIC: Kind("a consumer's next poll went back"),
    sending.INTERNAL_NONMONOTONIC: Kind("two records of one call are in the wrong order"),
    sending.NONMONOTONIC: Kind("two records of one producer are in the wrong order"),
    sending.BELOW_KNOWN: Kind("put below what was already acknowledged"),
    scanning.MISMATCH: Kind("an acknowledged offset holds another value at the end"),
    scanning.VANISHED: Kind("read once, and not there at the end"),
    scanning.UNFINISHED: Kind("nothing was read to the end"),
    commits.BEYOND: Kind("a group's offset beyond what was read"),
    commits.LOST: Kind("a group's committed offset is gone"),
    "wr-cycle": Kind("calls that read each other's values"),
    "wr-cycle-process": Kind("the same, with the order of a process"),
    "wr-cycle-realtime": Kind("the same, with the order of the clock"),
    "G0": Kind("writes of several calls interleave", is_allowed=True),
    "G0-process": Kind("the same, with the order of a process", is_allowed=True),
    "G0-realtime": Kind("the same, with the order of the clock", is_allowed=True),
    "G1c": Kind("writes and reads of several calls interleave", is_allowed=True),
    "G1c-process": Kind("the same, with the order of a process", is_allowed=True),
    "G1c-realtime": Kind("the same, with the order of the clock", is_allowed=True),
    sending.INTERNAL_SKIP: Kind("something stands between two records of one call", is_allowed=True),
    f"{polling.SKIP}-{polling.SUBSCRIBED}": Kind("a group's member began behind what it had read", is_allowed=True),
    f"{polling.NONMONOTONIC}-{polling.SUBSCRIBED}": Kind("a group's member read again", is_allowed=True),
}
"""In the order in which they are told. Allowed: Kafka isolates no writes, and a group begins at what was committed."""

FAMILIES: Sequence[Callable[[Facts], Iterable[Anomaly]]] = (
    losses.find,
    offsets_and_values.find,
    aborts.find,
    polling.find,
    sending.find,
    scanning.find,
    commits.find,
    cycles.find,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`anomalies` by kind, in the order of `KINDS`; kinds without any are left out."""

    header: Header
    anomalies: Mapping[str, Sequence[Anomaly]]
    figures: Mapping[str, Any]

    @property
    def broken(self) -> list[Anomaly]:
        """Those that nothing allows."""
        return [each for kind, found in self.anomalies.items() if not KINDS[kind].is_allowed for each in found]

    @property
    def is_good(self) -> bool:
        return not self.broken

    def as_json(self, most: int = 20) -> dict[str, Any]:
        """Plain data, with at most so many anomalies of each kind."""
        return {
            "valid": self.is_good,
            "anomalies": {
                kind: {
                    "count": len(found),
                    "allowed": KINDS[kind].is_allowed,
                    "meaning": KINDS[kind].meaning,
                    "evidence": [{**each._asdict(), "text": each.text(self.header)} for each in found[:most]],
                }
                for kind, found in self.anomalies.items()
            },
            "figures": dict(self.figures),
        }


def verify(history: History) -> Verdict:
    facts = Facts(history)
    found = [anomaly for family in FAMILIES for anomaly in family(facts)]
    by_kind = {kind: [each for each in found if each.kind == kind] for kind in KINDS}
    return Verdict(history.header, {kind: each for kind, each in by_kind.items() if each}, figures(facts))
