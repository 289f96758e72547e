"""Records that clients must not be able to read.

inconsistent-offsets: two values at one offset. duplicate: one value at two offsets. unwritten: a value that nobody
sent. aborted-read (G1a): a value was read whose send or transaction failed. precommitted-read: a transaction polled its
own send.
"""

from collections.abc import Iterator

from tidelog.check.history.anomalies import Anomaly
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import FAIL, TXN, Call

INCONSISTENT, DUPLICATE, UNWRITTEN = "inconsistent-offsets", "duplicate", "unwritten"

ABORTED, PRECOMMITTED = "aborted-read", "precommitted-read"


def find_conflicting_records(facts: Facts) -> Iterator[Anomaly]:
    for key, versions in facts.versions.items():
        for offset in versions.offsets:
            lines_by_value = versions.values_at[offset]
            if len(lines_by_value) > 1:
                values, lines = tuple(lines_by_value), tuple(lines_by_value.values())
                what = " and ".join(map(repr, values))
                yield Anomaly(INCONSISTENT, f"offset {offset} holds {what}", lines, key, offset, values)
        for value, offsets in versions.offsets_of.items():
            if len(offsets) > 1:
                lines = tuple(versions.values_at[offset][value] for offset in offsets)
                where = " and ".join(map(str, offsets))
                yield Anomaly(DUPLICATE, f"value {value!r} is at offsets {where}", lines, key, offsets[0], (value,))
        for value, reads in facts.reads[key].items():
            if value not in facts.writes[key]:
                offset, line = reads[0].offset, reads[0].call.line
                sentence = f"value {value!r} at offset {offset} was read, and nobody sent it"
                yield Anomaly(UNWRITTEN, sentence, (line,), key, offset, (value,))


def find_uncommitted_reads(facts: Facts) -> Iterator[Anomaly]:
    for key, reads in facts.reads.items():
        for value, seen in reads.items():
            write = facts.writes[key].get(value)
            if write is not None and write.fate == FAIL:
                offset, lines = seen[0].offset, (write.call.line, seen[0].call.line)
                sentence = f"value {value!r} was read at offset {offset}, though its {write.call.invoke.f} failed"
                yield Anomaly(ABORTED, sentence, lines, key, offset, (value,))
    for call in facts.calls:
        if call.invoke.f == TXN:
            yield from _own_reads(call)


def _own_reads(call: Call) -> Iterator[Anomaly]:
    sent = {(send.key, send.value) for send in call.sends}
    for poll in call.polls:
        for key, records in poll.records.items():
            for offset, value in records:
                if (key, value) in sent:
                    sentence = f"a transaction read its own value {value!r} at offset {offset} before it committed"
                    yield Anomaly(PRECOMMITTED, sentence, (call.line,), key, offset, (value,))
