"""A history indexed by partition and value: who wrote it, whether that is certain, who read it, and at which offsets.

Every poll counts, however its call ended, because a consumer must never return an unsafe record. A send counts if it
was acknowledged. A send in a transaction without an answer counts if any value of the transaction was read.
"""

from collections import defaultdict
from typing import NamedTuple

from tidelog.check.history.operation import (
    DEBUG,
    INFO,
    OK,
    SCAN_BEGINS,
    SCAN_ENDS,
    TXN,
    Call,
    History,
    Send,
    Value,
    calls,
)


class Write(NamedTuple):
    """The send of one value. `fate` is OK if it is certainly in the log, FAIL if it must not be, else INFO."""

    call: Call
    offset: int | None
    fate: str


class Read(NamedTuple):
    call: Call
    offset: int


class Scan(NamedTuple):
    """One complete final scan: key → offset → value; `line` is the line that ends it."""

    line: int
    process: int
    records: dict[int, dict[int, Value]]


class Facts:
    def __init__(self, history: History) -> None:
        self.header = history.header
        self.calls = calls(history.operations)
        self.reads: defaultdict[int, defaultdict[Value, list[Read]]] = defaultdict(lambda: defaultdict(list))
        self.writes: defaultdict[int, dict[Value, Write]] = defaultdict(dict)
        self.scans: list[Scan] = []
        self._gather_reads()
        self._gather_writes()
        self._gather_scans()
        self.versions = {key: Versions(self, key) for key in sorted({*self.reads, *self.writes})}

    def __repr__(self) -> str:
        return f"<Facts {len(self.calls)} calls, {len(self.versions)} keys, {len(self.scans)} scans>"

    def is_committed(self, call: Call) -> bool:
        """Whether the call certainly took effect."""
        if call.outcome == OK:
            return True
        return any(self.writes[send.key][send.value].fate == OK for send in call.sends)

    def by_process(self) -> dict[int, list[Call]]:
        found: defaultdict[int, list[Call]] = defaultdict(list)
        for call in self.calls:
            found[call.invoke.process].append(call)
        return found

    def _gather_reads(self) -> None:
        for call in self.calls:
            for poll in call.polls:
                for key, records in poll.records.items():
                    for offset, value in records:
                        self.reads[key][value].append(Read(call, offset))

    def _gather_writes(self) -> None:
        for call in self.calls:
            sends = call.sends
            seen = [send for send in sends if send.value in self.reads[send.key]]
            for send in sends:
                is_seen = bool(seen) if call.invoke.f == TXN else send in seen
                self.writes[send.key][send.value] = Write(call, send.offset, _fate(call, send, is_seen=is_seen))

    def _gather_scans(self) -> None:
        """Collect the polls between the marks of one process; a scan that did not end does not count."""
        running: dict[int, dict[int, dict[int, Value]]] = {}
        for call in self.calls:
            process = call.invoke.process
            if call.invoke.f == DEBUG and call.invoke.value == SCAN_BEGINS:
                running[process] = defaultdict(dict)
            elif call.invoke.f == DEBUG and call.invoke.value == SCAN_ENDS and process in running:
                self.scans.append(Scan(call.line, process, running.pop(process)))
            elif process in running:
                for poll in call.polls:
                    for key, records in poll.records.items():
                        running[process][key].update(records)


def _fate(call: Call, send: Send, *, is_seen: bool) -> str:
    """The fate of a send. `is_seen`: whether the value was read, or any value of its transaction."""
    if call.outcome != INFO:
        return call.outcome
    is_acknowledged = send.offset is not None and call.invoke.f != TXN
    return OK if is_seen or is_acknowledged else INFO


class Versions:
    """One partition's log, as far as clients know it. Offsets without a known value are left out, since transaction
    markers make gaps legal. An index is a position among the known offsets."""

    def __init__(self, facts: Facts, key: int) -> None:
        self.key = key
        self.values_at: defaultdict[int, dict[Value, int]] = defaultdict(dict)
        """offset → value → the first line that reports it."""
        self.offsets_of: defaultdict[Value, list[int]] = defaultdict(list)
        """value → its offsets, ascending."""
        for value, write in facts.writes[key].items():
            if write.offset is not None and write.fate == OK:
                self._add(write.offset, value, write.call.line)
        for value, reads in facts.reads[key].items():
            for read in reads:
                self._add(read.offset, value, read.call.line)
        self.offsets = sorted(self.values_at)
        self.index = {offset: index for index, offset in enumerate(self.offsets)}
        for offset in self.offsets:
            for value in self.values_at[offset]:
                self.offsets_of[value].append(offset)

    def __repr__(self) -> str:
        return f"<Versions of key {self.key}: {len(self.offsets)} offsets>"

    def value_at(self, offset: int) -> Value:
        """The value at an offset; the first reported one if there are several."""
        return min(self.values_at[offset].items(), key=lambda item: item[1])[0]

    def _add(self, offset: int, value: Value, line: int) -> None:
        lines = self.values_at[offset]
        lines[value] = min(line, lines.get(value, line))
