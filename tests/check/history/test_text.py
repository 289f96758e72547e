"""A history is read back as it was written; a file that is cut off or foreign is refused with the line."""

import json

import pytest

from tests.check.history.made import HEADER, Made
from tidelog.check.history.operation import COMMIT, Commit, Header, Poll, Send
from tidelog.check.history.text import NotAHistory, header_line, parse


def made():
    return (
        Made()
        .sent(0, 0, 7, 12)
        .unanswered(1, 2, 8)
        .assigned(2, 0, 1)
        .polled(2, {0: [(12, 7)], 1: []}, rebalanced=[1])
        .call(2, COMMIT, {0: 13}, {0: 13})
        .txn(3, Send(0, 14, 9), Poll({2: [(0, "not ours")]}), Commit({2: 1}))
        .crashed(2)
        .scanned(4, {0: [(12, 7), (14, 9)]})
    )


def test_what_is_written_is_read_back():
    history = parse(made().lines)
    assert list(history.operations) == made().operations
    assert history.header == HEADER


def test_the_header_keeps_what_the_workload_says_of_itself():
    header = Header([("t", 0)], {"seed": 7})
    assert parse([header_line(header), '{"end":0}']).header == header
    assert (header.name(0), header.name(1)) == ("t-0", "key 1")


def lines(*changes):
    """The lines of a small history; each change puts a text, or changed fields, in the place of a line."""
    found = Made().sent(0, 0, 7, 12).polled(1, {0: [(12, 7)]}).lines
    for number, change in changes:
        found[number - 1] = change if isinstance(change, str) else json.dumps(json.loads(found[number - 1]) | change)
    return found


@pytest.mark.parametrize(
    ("given", "line", "expected"),
    [
        ([], 1, "a header: the file is empty"),
        (["hello\n"], 1, "expected a JSON object, found 'hello'"),
        (["[1]\n"], 1, "expected a JSON object, found '[1]'"),
        (['{"name": "x"}\n'], 1, 'expected a header with "history":"tidelog"'),
        (lines((1, {"version": 2})), 1, "expected version 1, found 2"),
        (lines((1, {"partitions": [["t"]]})), 1, "a list of [topic, partition]"),
        (lines()[:-1], 6, 'expected {"end":N} as the last line: the file is cut off'),
        ([*lines()[:4], lines()[4][:20]], 5, "the line is cut off"),
        (lines((6, '{"end": 9}')), 6, 'expected {"end":4}, the operations before it'),
        ([*lines(), "{}\n"], 7, "nothing was expected after the line that ends the history"),
        (lines((3, {"i": 5})), 3, 'expected "i":1, found 5: lines are missing or out of order'),
        (lines((3, {"process": -1})), 3, 'expected "process" as a whole number, found -1'),
        (lines((3, {"type": "maybe"})), 3, "expected \"type\" as one of invoke, ok, fail, info, found 'maybe'"),
        (lines((3, {"f": "eat"})), 3, 'expected "f" as one of assign, commit'),
        (lines((3, {"process": 5})), 3, "process 5 ends a send that it did not invoke"),
        (lines((3, {"type": "invoke", "value": []})), 3, "process 0 is still in the send of line 2"),
        (lines((2, {"value": 3})), 2, 'expected "value" of a send as a list of micro-operations, found 3'),
        (lines((2, {"value": [["send", 9, 7]]})), 2, 'expected ["send",key,value] or'),
        (lines((3, {"value": [["send", 0, 7]]})), 3, 'expected ["send",key,[offset,value]] or'),
        (lines((5, {"value": [["poll", {"0": [[1]]}]]})), 5, "records of key 0 as a list of [offset,value]"),
        (lines((5, {"value": [["poll", {"7": []}]]})), 5, "expected a key below 3, found '7'"),
        (lines((5, {"rebalance_log": [3]})), 5, 'expected "rebalance_log" as a list of keys below 3'),
        (lines((4, {"f": "assign", "value": ["t"]})), 4, 'expected "value" of a assign as a list of keys'),
        (lines((4, {"f": "commit", "value": {"0": -1}})), 4, "expected an offset of a key below 3, found '0': -1"),
        (lines((4, {"f": "commit", "value": [1]})), 4, "expected offsets by key"),
    ],
)
def test_what_is_no_history_is_refused_with_the_line(given, line, expected):
    with pytest.raises(NotAHistory) as refused:
        parse(given)
    assert refused.value.line == line
    assert expected in str(refused.value)
