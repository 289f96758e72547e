"""inconsistent-offsets: two values at one offset. duplicate: one value at two offsets. unwritten: a value that nobody
sent.
"""

from collections.abc import Iterator

from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts

INCONSISTENT, DUPLICATE, UNWRITTEN = "inconsistent-offsets", "duplicate", "unwritten"


def find(facts: Facts) -> Iterator[Anomaly]:
    for key, versions in facts.versions.items():
        for offset in versions.offsets:
            told = versions.at[offset]
            if len(told) > 1:
                values, lines = tuple(told), tuple(told.values())
                what = " and ".join(map(repr, values))
                yield Anomaly(INCONSISTENT, f"offset {offset} holds {what}", lines, key, offset, values)
        for value, offsets in versions.places.items():
            if len(offsets) > 1:
                lines = tuple(versions.at[offset][value] for offset in offsets)
                where = " and ".join(map(str, offsets))
                yield Anomaly(DUPLICATE, f"value {value!r} is at offsets {where}", lines, key, offsets[0], (value,))
        for value, reads in facts.reads[key].items():
            if value not in facts.writes[key]:
                offset, line = reads[0].offset, reads[0].call.line
                sentence = f"value {value!r} at offset {offset} was read, and nobody sent it"
                yield Anomaly(UNWRITTEN, sentence, (line,), key, offset, (value,))
