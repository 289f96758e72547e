"""The readings of everything at the end, against what was told before.

ack-mismatch: an acknowledged record is not what its offset holds. vanished: a record that somebody read is not there
any more. unfinished: nothing was read to the end, so that nothing can be said about what was lost.
"""

from collections.abc import Iterator

from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts, Scan
from tidelog.check.history.operation import OK

MISMATCH, VANISHED, UNFINISHED = "ack-mismatch", "vanished", "unfinished"


def find(facts: Facts) -> Iterator[Anomaly]:
    if not facts.scans:
        line = facts.calls[-1].line if facts.calls else 1
        yield Anomaly(UNFINISHED, "no process read all partitions from the beginning to the end", (line,))
    for scan in facts.scans:
        for key in facts.versions:
            yield from _against_acks(facts, scan, key)
            yield from _against_reads(facts, scan, key)


def _against_acks(facts: Facts, scan: Scan, key: int) -> Iterator[Anomaly]:
    held = scan.records.get(key, {})
    for value, write in facts.writes[key].items():
        if write.fate != OK or write.offset is None or write.call.line > scan.line or write.offset not in held:
            continue  # one that is nowhere is lost-write's or unseen's
        found = held[write.offset]
        if found != value:
            sentence = f"offset {write.offset} was acknowledged for {value!r} and holds {found!r} at the end"
            yield Anomaly(MISMATCH, sentence, (write.call.line, scan.line), key, write.offset, (value, found))


def _against_reads(facts: Facts, scan: Scan, key: int) -> Iterator[Anomaly]:
    held = scan.records.get(key, {})
    for value, reads in facts.reads[key].items():
        for read in {read.offset: read for read in reversed(reads)}.values():
            if read.call.line < scan.line and held.get(read.offset) != value:
                instead = f"{held[read.offset]!r}" if read.offset in held else "nothing"
                sentence = f"value {value!r} was read at offset {read.offset}, which holds {instead} at the end"
                yield Anomaly(VANISHED, sentence, (read.call.line, scan.line), key, read.offset, (value,))
