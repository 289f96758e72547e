"""aborted-read (G1a): a value was read whose write failed. precommitted-read: a transaction polled its own send."""

from collections.abc import Iterator

from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import FAIL, TXN, Call

ABORTED, PRECOMMITTED = "aborted-read", "precommitted-read"


def find(facts: Facts) -> Iterator[Anomaly]:
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
