"""Histories made by hand: `Made().sent(0, key, value, offset)` appends the lines of a call."""

from tidelog.check.history.operation import (
    ASSIGN,
    CRASH,
    DEBUG,
    FAIL,
    INFO,
    INVOKE,
    OK,
    POLL,
    SCAN_BEGINS,
    SCAN_ENDS,
    SEND,
    SUBSCRIBE,
    TXN,
    Header,
    History,
    Operation,
    Poll,
    Send,
)
from tidelog.check.history.text import end_line, header_line, operation_line, parse
from tidelog.check.history.verdict import verify

HEADER = Header([("t", 0), ("t", 1), ("u", 0)])


class Made:
    """Each call takes its process; `begin` and `end` put other calls in between."""

    def __init__(self):
        self.operations = []

    def add(self, process, type_, f, value, rebalanced=()):
        number = len(self.operations)
        self.operations.append(
            Operation(number + 2, number, number * 1_000_000, process, type_, f, value, frozenset(rebalanced))
        )
        return self

    def call(self, process, f, asked, told, type_=OK, rebalanced=()):
        return self.add(process, INVOKE, f, asked).add(process, type_, f, told, rebalanced)

    def sent(self, process, key, value, offset=None, type_=OK):
        return self.call(process, SEND, [Send(key, None, value)], [Send(key, offset, value)], type_)

    def failed(self, process, key, value):
        return self.sent(process, key, value, None, FAIL)

    def unanswered(self, process, key, value):
        return self.sent(process, key, value, None, INFO)

    def polled(self, process, records, type_=OK, rebalanced=()):
        return self.call(process, POLL, [Poll({})], [Poll(records)], type_, rebalanced)

    def txn(self, process, *moves, type_=OK):
        asked = [move._replace(offset=None) if isinstance(move, Send) else type(move)({}) for move in moves]
        return self.call(process, TXN, asked, list(moves), type_)

    def assigned(self, process, *keys):
        return self.call(process, ASSIGN, list(keys), list(keys))

    def subscribed(self, process, *keys):
        return self.call(process, SUBSCRIBE, list(keys), list(keys))

    def crashed(self, process):
        return self.call(process, CRASH, None, None)

    def scanned(self, process, records):
        self.call(process, DEBUG, SCAN_BEGINS, SCAN_BEGINS)
        if records:
            self.polled(process, records)
        return self.call(process, DEBUG, SCAN_ENDS, SCAN_ENDS)

    @property
    def history(self):
        return History(HEADER, self.operations)

    @property
    def lines(self):
        lines = [header_line(HEADER), *map(operation_line, self.operations), end_line(len(self.operations))]
        return [line + "\n" for line in lines]

    def verdict(self):
        """Of the history as its lines have it."""
        return verify(parse(self.lines))

    def kinds(self):
        return {kind: len(found) for kind, found in self.verdict().anomalies.items()}
