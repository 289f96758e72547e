"""The order of records, as one consumer polls them and as one producer sends them.

int-poll-skip, int-nonmonotonic-poll: within one poll. poll-skip, nonmonotonic-poll: from one call of a process to its
next. Each record must be the next one that exists. Partitions that the group assigned or revoked meanwhile, and those
that a new assignment does not keep, may begin anywhere. A failed call moves the consumer as well: it does not go back
with an aborted transaction.

int-nonmonotonic-send, nonmonotonic-send: a producer's later record has a lower offset than its earlier one, within a
call or from one call to the next. int-send-skip: other records stand between two records of one call (which Kafka
allows). ack-below-known: a record was written below an offset that was already acknowledged when it was sent.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.check.history.anomalies import Anomaly
from tidelog.check.history.facts import Facts, Versions
from tidelog.check.history.operation import ASSIGN, CRASH, INVOKE, OK, SUBSCRIBE, Call, Send, Value

POLL_SKIP, POLL_NONMONOTONIC = "poll-skip", "nonmonotonic-poll"
INTERNAL_POLL_SKIP, INTERNAL_POLL_NONMONOTONIC = "int-poll-skip", "int-nonmonotonic-poll"
SUBSCRIBED = "under-subscribe"
"""Suffix of the kind for a process that subscribed: a group may resume at the committed offset."""

_SHOWN = 5

SEND_NONMONOTONIC, INTERNAL_SEND_NONMONOTONIC = "nonmonotonic-send", "int-nonmonotonic-send"
INTERNAL_SEND_SKIP, ACK_BELOW_KNOWN = "int-send-skip", "ack-below-known"


class _Read(NamedTuple):
    offset: int
    value: Value
    line: int


def find_polls_out_of_order(facts: Facts) -> Iterator[Anomaly]:
    for process_calls in facts.by_process().values():
        yield from _between_polls(facts, process_calls)
    for call in facts.calls:
        for key, records in _by_key(call).items():
            if key in _rebalanced(call):
                continue
            for (offset, value), (later, next_value) in pairwise(records):
                kinds = (INTERNAL_POLL_SKIP, INTERNAL_POLL_NONMONOTONIC)
                before, after = _Read(offset, value, call.line), _Read(later, next_value, call.line)
                yield from _compare_polled(facts.versions[key], kinds, before, after)


def _between_polls(facts: Facts, process_calls: Sequence[Call]) -> Iterator[Anomaly]:
    last_read: dict[int, _Read] = {}
    mode, kinds = "", (POLL_SKIP, POLL_NONMONOTONIC)
    for call in process_calls:
        f = call.invoke.f
        if f in (ASSIGN, SUBSCRIBE, CRASH):
            assigned = set(call.invoke.value or ()) if f == mode else set()
            last_read = {key: read for key, read in last_read.items() if key in assigned}
            mode = f
            if f == SUBSCRIBE:
                kinds = (f"{POLL_SKIP}-{SUBSCRIBED}", f"{POLL_NONMONOTONIC}-{SUBSCRIBED}")
        for key in _rebalanced(call):
            last_read.pop(key, None)
        for key, records in _by_key(call).items():
            (offset, value), (last, last_value) = records[0], records[-1]
            if key in last_read:
                yield from _compare_polled(facts.versions[key], kinds, last_read[key], _Read(offset, value, call.line))
            last_read[key] = _Read(last, last_value, call.line)


def _by_key(call: Call) -> dict[int, list[tuple[int, Value]]]:
    """All records of a call; keys without records are left out."""
    found: dict[int, list[tuple[int, Value]]] = {}
    for poll in call.polls:
        for key, records in poll.records.items():
            if records:
                found.setdefault(key, []).extend(records)
    return found


def _rebalanced(call: Call) -> frozenset[int]:
    return call.invoke.rebalanced | (frozenset() if call.end is None else call.end.rebalanced)


def _compare_polled(versions: Versions, kinds: tuple[str, str], before: _Read, after: _Read) -> Iterator[Anomaly]:
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
    lines = tuple(sorted({*lines, *versions.values_at[missed[0]].values()}))
    yield Anomaly(skip, sentence, lines, versions.key, missed[0], values)


def find_sends_out_of_order(facts: Facts) -> Iterator[Anomaly]:
    for process_calls in facts.by_process().values():
        last: dict[int, tuple[int, Call]] = {}
        for call in process_calls:
            yield from _compare_sent(facts, call, last)
    yield from _below_acknowledged(facts)


def _acknowledged(facts: Facts, call: Call) -> Iterator[tuple[Send, int]]:
    for send in call.sends:
        if send.offset is not None and facts.writes[send.key][send.value].fate == OK:
            yield send, send.offset


def _compare_sent(facts: Facts, call: Call, last: dict[int, tuple[int, Call]]) -> Iterator[Anomaly]:
    for send, offset in _acknowledged(facts, call):
        before, earlier = last.get(send.key, (-1, call))
        last[send.key] = (offset, call)
        if before < 0:
            continue
        is_internal = earlier is call
        lines = tuple(sorted({earlier.line, call.line}))
        if offset <= before:
            kind = INTERNAL_SEND_NONMONOTONIC if is_internal else SEND_NONMONOTONIC
            sentence = (
                f"value {send.value!r} was put at offset {offset}, after an earlier one of its producer at {before}"
            )
            yield Anomaly(kind, sentence, lines, send.key, offset, (send.value,))
        elif is_internal:
            index = facts.versions[send.key].index
            if index[offset] - index[before] > 1:
                sentence = f"value {send.value!r} at offset {offset} does not follow {before} directly"
                yield Anomaly(INTERNAL_SEND_SKIP, sentence, lines, send.key, offset, (send.value,))


def _below_acknowledged(facts: Facts) -> Iterator[Anomaly]:
    """Go through the lines in order: compare what was acknowledged when a send was invoked with the offset
    that it got."""
    known: dict[int, tuple[int, int]] = {}
    at_invoke: dict[int, dict[int, tuple[int, int]]] = {}
    lines_of: defaultdict[int, list[Call]] = defaultdict(list)
    for call in facts.calls:
        if call.sends and call.end is not None:
            lines_of[call.invoke.line].append(call)
            lines_of[call.end.line].append(call)
    for line in sorted(lines_of):
        for call in lines_of[line]:
            if call.invoke.line == line and call.invoke.type == INVOKE:
                at_invoke[call.number] = {send.key: known[send.key] for send in call.sends if send.key in known}
                continue
            for send, offset in _acknowledged(facts, call):
                before, acked_line = at_invoke[call.number].get(send.key, (-1, 0))
                if offset <= before:
                    sentence = (
                        f"value {send.value!r} was put at offset {offset}, though {before} was acknowledged before"
                    )
                    yield Anomaly(ACK_BELOW_KNOWN, sentence, (acked_line, line), send.key, offset, (send.value,))
                if offset > known.get(send.key, (-1, 0))[0]:
                    known[send.key] = (offset, line)
