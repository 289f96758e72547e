"""Consecutive records of a partition, as one consumer gets them: each is the next one that exists.

int-poll-skip, int-nonmonotonic-poll: within one call. poll-skip, nonmonotonic-poll: from one call of a process to its
next. What the group gave or took meanwhile, and what a new assignment does not keep, may begin anywhere. A
call that failed has moved the consumer as well: it does not go back with an aborted transaction.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts, Versions
from tidelog.check.history.operation import ASSIGN, CRASH, SUBSCRIBE, Call, Value

SKIP, NONMONOTONIC = "poll-skip", "nonmonotonic-poll"
INTERNAL_SKIP, INTERNAL_NONMONOTONIC = "int-poll-skip", "int-nonmonotonic-poll"
SUBSCRIBED = "under-subscribe"
"""Put behind the kind for a process that subscribed: a group may begin anew at what was committed."""

_SHOWN = 5


class _Place(NamedTuple):
    offset: int
    value: Value
    line: int


def find(facts: Facts) -> Iterator[Anomaly]:
    for process_calls in facts.by_process().values():
        yield from _between(facts, process_calls)
    for call in facts.calls:
        for key, records in _by_key(call).items():
            if key in _rebalanced(call):
                continue
            for (offset, value), (later, next_value) in pairwise(records):
                kinds = (INTERNAL_SKIP, INTERNAL_NONMONOTONIC)
                before, after = _Place(offset, value, call.line), _Place(later, next_value, call.line)
                yield from _judge(facts.versions[key], kinds, before, after)


def _between(facts: Facts, process_calls: Sequence[Call]) -> Iterator[Anomaly]:
    places: dict[int, _Place] = {}
    mode, kinds = "", (SKIP, NONMONOTONIC)
    for call in process_calls:
        f = call.invoke.f
        if f in (ASSIGN, SUBSCRIBE, CRASH):
            kept = set(call.invoke.value or ()) if f == mode else set()
            places = {key: place for key, place in places.items() if key in kept}
            mode = f
            if f == SUBSCRIBE:
                kinds = (f"{SKIP}-{SUBSCRIBED}", f"{NONMONOTONIC}-{SUBSCRIBED}")
        for key in _rebalanced(call):
            places.pop(key, None)
        for key, records in _by_key(call).items():
            (offset, value), (last, last_value) = records[0], records[-1]
            if key in places:
                yield from _judge(facts.versions[key], kinds, places[key], _Place(offset, value, call.line))
            places[key] = _Place(last, last_value, call.line)


def _by_key(call: Call) -> dict[int, list[tuple[int, Value]]]:
    """All records of a call; keys without any are left out."""
    found: dict[int, list[tuple[int, Value]]] = {}
    for poll in call.polls:
        for key, records in poll.records.items():
            if records:
                found.setdefault(key, []).extend(records)
    return found


def _rebalanced(call: Call) -> frozenset[int]:
    return call.invoke.rebalanced | (frozenset() if call.end is None else call.end.rebalanced)


def _judge(versions: Versions, kinds: tuple[str, str], before: _Place, after: _Place) -> Iterator[Anomaly]:
    skip, nonmonotonic = kinds
    step = versions.index[after.offset] - versions.index[before.offset]
    if step == 1:
        return
    lines = tuple(sorted({before.line, after.line}))
    what = f"{before.value!r} at offset {before.offset} was followed by {after.value!r} at {after.offset}"
    if step < 1:
        yield Anomaly(nonmonotonic, what, lines, versions.key, after.offset, (before.value, after.value))
        return
    missed = versions.offsets[versions.index[before.offset] + 1 : versions.index[after.offset]]
    values = tuple(versions.value_at(offset) for offset in missed)
    shown = ", ".join(f"{versions.value_at(offset)!r} at {offset}" for offset in missed[:_SHOWN])
    more = f" and {len(missed) - _SHOWN} more" if len(missed) > _SHOWN else ""
    sentence = f"{what}, without {shown}{more}"
    lines = tuple(sorted({*lines, *versions.at[missed[0]].values()}))
    yield Anomaly(skip, sentence, lines, versions.key, missed[0], values)
