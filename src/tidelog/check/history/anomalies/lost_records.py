"""Records that are gone: acknowledged but never read, or missing at the end.

lost-write: a value that was certainly written was never read, although a later one was. unseen: nobody had read an
acknowledged value by the end: it is lost at the tail, or consumers are stuck.

Final scans, compared with what clients saw before: ack-mismatch: the offset of an acknowledged record has another
value. vanished: a record that a client read is missing. unfinished: no scan was complete, so nothing can be said about
lost records.
"""

from collections.abc import Iterator

from tidelog.check.history.anomalies import Anomaly
from tidelog.check.history.facts import Facts, Scan, Versions
from tidelog.check.history.operation import OK, Value

LOST, UNSEEN = "lost-write", "unseen"

MISMATCH, VANISHED, UNFINISHED = "ack-mismatch", "vanished", "unfinished"


def find_unread_records(facts: Facts) -> Iterator[Anomaly]:
    for key, versions in facts.versions.items():
        bound = _bound(facts, versions)
        for value, write in facts.writes[key].items():
            if write.fate != OK or value in facts.reads[key]:
                continue
            line = write.call.line
            offsets = versions.offsets_of.get(value)
            if offsets and versions.index[offsets[-1]] <= bound:
                after = versions.offsets[bound]
                later, read_at = _read_at(facts, versions, after)
                sentence = f"value {value!r} at offset {offsets[-1]} was never read, though {later!r} at {after} was"
                yield Anomaly(LOST, sentence, (line, read_at), key, offsets[-1], (value,))
            else:
                where = f" at offset {offsets[-1]}" if offsets else ""
                sentence = f"value {value!r} was acknowledged{where} and nobody had read it at the end"
                yield Anomaly(UNSEEN, sentence, (line,), key, offsets[-1] if offsets else None, (value,))


def _read_at(facts: Facts, versions: Versions, offset: int) -> tuple[Value, int]:
    """A value that was read there, and the line that proves it."""
    lines = {
        value: read.call.line
        for value in versions.values_at[offset]
        for read in facts.reads[versions.key].get(value, ())
        if read.offset == offset
    }
    return min(lines.items(), key=lambda item: item[1])


def _bound(facts: Facts, versions: Versions) -> int:
    """The last index below which everything must have been read; -1 if nothing was read."""
    return max((versions.index[versions.offsets_of[value][0]] for value in facts.reads[versions.key]), default=-1)


def find_records_gone_at_the_end(facts: Facts) -> Iterator[Anomaly]:
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
            continue  # a record that is missing altogether is a lost-write or unseen
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
