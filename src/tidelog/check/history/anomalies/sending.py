"""Where acknowledged records of a partition were put.

int-nonmonotonic-send, nonmonotonic-send: a producer's later record stands before its earlier one, within a call or from
one call to the next. int-send-skip: something stands between two records of one call (nobody promised otherwise).
ack-below-known: a record was put below an offset that somebody knew to be acknowledged when it was sent.
"""

from collections import defaultdict
from collections.abc import Iterator

from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import INVOKE, OK, Call, Send

NONMONOTONIC, INTERNAL_NONMONOTONIC = "nonmonotonic-send", "int-nonmonotonic-send"
INTERNAL_SKIP, BELOW_KNOWN = "int-send-skip", "ack-below-known"


def find(facts: Facts) -> Iterator[Anomaly]:
    for process_calls in facts.by_process().values():
        last: dict[int, tuple[int, Call]] = {}
        for call in process_calls:
            yield from _in_order(facts, call, last)
    yield from _below_known(facts)


def _acknowledged(facts: Facts, call: Call) -> Iterator[tuple[Send, int]]:
    for send in call.sends:
        if send.offset is not None and facts.writes[send.key][send.value].fate == OK:
            yield send, send.offset


def _in_order(facts: Facts, call: Call, last: dict[int, tuple[int, Call]]) -> Iterator[Anomaly]:
    for send, offset in _acknowledged(facts, call):
        before, earlier = last.get(send.key, (-1, call))
        last[send.key] = (offset, call)
        if before < 0:
            continue
        is_internal = earlier is call
        lines = tuple(sorted({earlier.line, call.line}))
        if offset <= before:
            kind = INTERNAL_NONMONOTONIC if is_internal else NONMONOTONIC
            sentence = (
                f"value {send.value!r} was put at offset {offset}, after an earlier one of its producer at {before}"
            )
            yield Anomaly(kind, sentence, lines, send.key, offset, (send.value,))
        elif is_internal:
            index = facts.versions[send.key].index
            if index[offset] - index[before] > 1:
                sentence = f"value {send.value!r} at offset {offset} does not follow {before} directly"
                yield Anomaly(INTERNAL_SKIP, sentence, lines, send.key, offset, (send.value,))


def _below_known(facts: Facts) -> Iterator[Anomaly]:
    """Every line in its order: what is known when a send is invoked, and where it was put in the end."""
    known: dict[int, tuple[int, int]] = {}
    at_invoke: dict[int, dict[int, tuple[int, int]]] = {}
    moments: defaultdict[int, list[Call]] = defaultdict(list)
    for call in facts.calls:
        if call.sends and call.end is not None:
            moments[call.invoke.line].append(call)
            moments[call.end.line].append(call)
    for line in sorted(moments):
        for call in moments[line]:
            if call.invoke.line == line and call.invoke.type == INVOKE:
                at_invoke[call.number] = {send.key: known[send.key] for send in call.sends if send.key in known}
                continue
            for send, offset in _acknowledged(facts, call):
                before, told_at = at_invoke[call.number].get(send.key, (-1, 0))
                if offset <= before:
                    sentence = (
                        f"value {send.value!r} was put at offset {offset}, though {before} was acknowledged before"
                    )
                    yield Anomaly(BELOW_KNOWN, sentence, (told_at, line), send.key, offset, (send.value,))
                if offset > known.get(send.key, (-1, 0))[0]:
                    known[send.key] = (offset, line)
