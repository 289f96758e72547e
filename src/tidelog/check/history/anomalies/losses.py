"""lost-write: a certain value that nobody read although a later one was read. unseen: an acknowledged value that nobody
had read at the end: lost at the tail, or consumers that are stuck.
"""

from collections.abc import Iterator

from tidelog.check.history.anomalies.anomaly import Anomaly
from tidelog.check.history.facts import Facts, Versions
from tidelog.check.history.operation import OK, Value

LOST, UNSEEN = "lost-write", "unseen"


def find(facts: Facts) -> Iterator[Anomaly]:
    for key, versions in facts.versions.items():
        bound = _bound(facts, versions)
        for value, write in facts.writes[key].items():
            if write.fate != OK or value in facts.reads[key]:
                continue
            line = write.call.line
            places = versions.places.get(value)
            if places and versions.index[places[-1]] <= bound:
                after = versions.offsets[bound]
                later, read_at = _read_at(facts, versions, after)
                sentence = f"value {value!r} at offset {places[-1]} was never read, though {later!r} at {after} was"
                yield Anomaly(LOST, sentence, (line, read_at), key, places[-1], (value,))
            else:
                where = f" at offset {places[-1]}" if places else ""
                sentence = f"value {value!r} was acknowledged{where} and nobody had read it at the end"
                yield Anomaly(UNSEEN, sentence, (line,), key, places[-1] if places else None, (value,))


def _read_at(facts: Facts, versions: Versions, offset: int) -> tuple[Value, int]:
    """A value that was read there, and the line that says so."""
    lines = {
        value: read.call.line
        for value in versions.at[offset]
        for read in facts.reads[versions.key].get(value, ())
        if read.offset == offset
    }
    return min(lines.items(), key=lambda told: told[1])


def _bound(facts: Facts, versions: Versions) -> int:
    """The last index up to which everything must have been read; -1 where nothing was."""
    return max((versions.index[versions.places[value][0]] for value in facts.reads[versions.key]), default=-1)
