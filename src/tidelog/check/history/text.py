"""A history as lines of JSON: a header, one line per operation, and a last line with the number of operations.

    {"history": "tidelog", "version": 1, "partitions": [["t", 0]], "about": {}}
    {"i": 0, "t_ns": 5, "process": 0, "type": "invoke", "f": "send", "value": [["send", 0, 7]]}
    {"i": 1, "t_ns": 9, "process": 0, "type": "ok", "f": "send", "value": [["send", 0, [12, 7]]]}
    {"end": 2}

A truncated or foreign file is rejected with the line number and what was expected there.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tidelog.check.history.operation import (
    ASSIGN,
    COMMIT,
    COMMITTED,
    CRASH,
    DEBUG,
    INVOKE,
    MOVES_RECORDS,
    SUBSCRIBE,
    TYPES,
    Commit,
    Header,
    History,
    Move,
    Operation,
    Poll,
    Send,
)

VERSION = 1
KINDS = frozenset({*MOVES_RECORDS, ASSIGN, SUBSCRIBE, CRASH, DEBUG, COMMIT, COMMITTED})
_SHOWN = 60


class NotAHistory(Exception):
    """The text is not a history. `line` counts from 1; the message says what was expected there."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"line {line}: {expected}")
        self.line = line


# Writing.


def header_line(header: Header) -> str:
    line = {"history": "tidelog", "version": VERSION, "partitions": list(header.partitions), "about": header.about}
    return _dumped(line)


def operation_line(operation: Operation) -> str:
    """The line of an operation; the micro-operations of its `value` become lists."""
    fields = {
        "i": operation.number,
        "t_ns": operation.t_ns,
        "process": operation.process,
        "type": operation.type,
        "f": operation.f,
        "value": _value_out(operation),
    }
    if operation.rebalanced:
        fields["rebalance_log"] = sorted(operation.rebalanced)
    return _dumped(fields)


def end_line(count: int) -> str:
    return _dumped({"end": count})


def _value_out(operation: Operation) -> Any:
    if operation.f not in MOVES_RECORDS or operation.value is None:
        return operation.value
    return [_move_out(move, is_invocation=operation.type == INVOKE) for move in operation.value]


def _move_out(move: Move, *, is_invocation: bool) -> list[Any]:
    if isinstance(move, Send):
        return ["send", move.key, move.value if is_invocation else [move.offset, move.value]]
    if isinstance(move, Commit):
        return ["commit"] if is_invocation else ["commit", move.offsets]
    return ["poll"] if is_invocation else ["poll", move.records]


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# Reading.


def parse(lines: Iterable[str]) -> History:
    """Parse a history; NotAHistory if a line is malformed, or the last one is missing."""
    operations: list[Operation] = []
    header: Header | None = None
    busy: dict[int, Operation] = {}
    number, ended = 0, False
    for number, text in enumerate(lines, 1):
        if ended:
            raise NotAHistory(number, "nothing was expected after the line that ends the history")
        found = _object(number, text)
        if header is None:
            header = _header(number, found)
        elif "end" in found:
            if found["end"] != len(operations):
                raise NotAHistory(number, f'expected {{"end":{len(operations)}}}, the operations before it')
            ended = True
        else:
            operations.append(_operation(number, found, len(operations), len(header.partitions)))
            _check_turn(operations[-1], busy)
    if header is None or not ended:
        expected = '{"end":N} as the last line: the file is cut off' if header else "a header: the file is empty"
        raise NotAHistory(number + 1, f"expected {expected}")
    return History(header, operations)


def _object(line: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        cut = "" if text.endswith("\n") else ", and the line is cut off"
        raise NotAHistory(line, f"expected a JSON object, found {text.strip()[:_SHOWN]!r}{cut}") from None
    if not isinstance(found, dict):
        raise NotAHistory(line, f"expected a JSON object, found {text.strip()[:_SHOWN]!r}")
    return found


def _header(line: int, found: dict[str, Any]) -> Header:
    if found.get("history") != "tidelog":
        raise NotAHistory(line, 'expected a header with "history":"tidelog": this is not a history of `tidelog check`')
    if found.get("version") != VERSION:
        raise NotAHistory(line, f"expected version {VERSION}, found {found.get('version')!r}")
    partitions = found.get("partitions")
    if not isinstance(partitions, list) or not all(
        isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and _is_count(each[1])
        for each in partitions
    ):
        raise NotAHistory(line, 'expected "partitions" as a list of [topic, partition]')
    return Header([(topic, partition) for topic, partition in partitions], found.get("about") or {})


def _operation(line: int, found: dict[str, Any], index: int, keys: int) -> Operation:
    for name in ("i", "t_ns", "process"):
        if not _is_count(found.get(name)):
            raise NotAHistory(line, f'expected "{name}" as a whole number, found {found.get(name)!r}')
    if found["i"] != index:
        raise NotAHistory(line, f'expected "i":{index}, found {found["i"]}: lines are missing or out of order')
    if found.get("type") not in TYPES:
        raise NotAHistory(line, f'expected "type" as one of {", ".join(TYPES)}, found {found.get("type")!r}')
    if found.get("f") not in KINDS:
        raise NotAHistory(line, f'expected "f" as one of {", ".join(sorted(KINDS))}, found {found.get("f")!r}')
    rebalanced = found.get("rebalance_log") or []
    if not isinstance(rebalanced, list) or not all(_is_key(key, keys) for key in rebalanced):
        raise NotAHistory(line, f'expected "rebalance_log" as a list of keys below {keys}')
    value = _value(line, found, keys)
    return Operation(
        line, index, found["t_ns"], found["process"], found["type"], found["f"], value, frozenset(rebalanced)
    )


def _check_turn(operation: Operation, busy: dict[int, Operation]) -> None:
    """Check that each process runs one call at a time."""
    begun = busy.get(operation.process)
    process = operation.process
    if operation.type == INVOKE:
        if begun is not None:
            raise NotAHistory(operation.line, f"process {process} is still in the {begun.f} of line {begun.line}")
        busy[process] = operation
    elif begun is None or begun.f != operation.f:
        raise NotAHistory(operation.line, f"process {process} ends a {operation.f} that it did not invoke")
    else:
        del busy[process]


def _value(line: int, found: dict[str, Any], keys: int) -> Any:
    value, f = found.get("value"), found["f"]
    if f in MOVES_RECORDS:
        if value is None and found["type"] != INVOKE:
            return None
        if not isinstance(value, list):
            raise NotAHistory(line, f'expected "value" of a {f} as a list of micro-operations, found {value!r:.60}')
        return [_move(line, move, keys, is_invocation=found["type"] == INVOKE) for move in value]
    if f in (ASSIGN, SUBSCRIBE):
        if not isinstance(value, list) or not all(_is_key(key, keys) for key in value):
            raise NotAHistory(line, f'expected "value" of a {f} as a list of keys below {keys}')
        return value
    if f in (COMMIT, COMMITTED):
        return _offsets(line, value, keys)
    return value


def _move(line: int, move: Any, keys: int, *, is_invocation: bool) -> Move:
    kind = move[0] if isinstance(move, list) and move else None
    if kind == "send" and len(move) == 3 and _is_key(move[1], keys):
        if is_invocation and isinstance(move[2], int | str):
            return Send(move[1], None, move[2])
        if not is_invocation and _is_placed(move[2], may_be_unknown=True):
            return Send(move[1], *move[2])
    if kind == "poll" and len(move) == 1:
        return Poll({})
    if kind == "commit":
        return Commit(_offsets(line, move[1] if len(move) > 1 else None, keys))
    if kind == "poll" and len(move) == 2 and isinstance(move[1], dict):
        return Poll(_records(line, move[1], keys))
    expected = '["send",key,value]' if is_invocation else '["send",key,[offset,value]]'
    raise NotAHistory(line, f'expected {expected} or ["poll",{{key:[[offset,value]]}}], found {json.dumps(move)[:60]}')


def _records(line: int, found: dict[str, Any], keys: int) -> dict[int, list[tuple[int, Any]]]:
    records = {}
    for text, placed in found.items():
        if not text.isdecimal() or not _is_key(int(text), keys):
            raise NotAHistory(line, f"expected a key below {keys}, found {text!r}")
        if not isinstance(placed, list) or not all(_is_placed(each) for each in placed):
            raise NotAHistory(line, f"expected the records of key {text} as a list of [offset,value]")
        records[int(text)] = [(offset, value) for offset, value in placed]
    return records


def _offsets(line: int, found: Any, keys: int) -> dict[int, int]:
    items: Sequence[tuple[str, Any]] = list(found.items()) if isinstance(found, dict) else []
    if found is not None and not isinstance(found, dict):
        raise NotAHistory(line, "expected offsets by key")
    for text, offset in items:
        if not text.isdecimal() or not _is_key(int(text), keys) or not _is_count(offset):
            raise NotAHistory(line, f"expected an offset of a key below {keys}, found {text!r}: {offset!r}")
    return {int(text): offset for text, offset in items}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_key(value: object, keys: int) -> bool:
    return _is_count(value) and isinstance(value, int) and value < keys


def _is_placed(value: object, *, may_be_unknown: bool = False) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], int | str):
        return False
    return _is_count(value[0]) or (may_be_unknown and value[0] is None)
