"""Lines to records and back: each property of Kafka's console tools, and both tools against a cluster."""

import click
import pytest

from tidelog.cli.console.produce import ParsedLine, line_reader
from tidelog.cli.console.record_formatters import line_format
from tidelog.cli.options import CommandFailed
from tidelog.client.results import ConsumerRecord


def parsed(line, **properties):
    return line_reader({name.replace("_", "."): value for name, value in properties.items()}).parse(line, 1)


def test_a_line_is_a_value_unless_more_is_asked_for():
    assert parsed(b"a\tb") == ParsedLine(b"a\tb")
    assert parsed(b"a\tb", parse_key="true") == ParsedLine(b"b", b"a")
    assert parsed(b"a||b||c", parse_key="true", key_separator="||") == ParsedLine(b"b||c", b"a")
    assert parsed(b"h:1,i:2\tv", parse_headers="true") == ParsedLine(b"v", None, [("h", b"1"), ("i", b"2")])
    whole = parsed(
        b"h=1;i=\tk\tv", parse_headers="true", parse_key="TRUE", headers_separator=";", headers_key_separator="="
    )
    assert whole == ParsedLine(b"v", b"k", [("h", b"1"), ("i", b"")])


def test_the_null_marker_makes_each_part_null():
    given = {"parse_headers": "true", "parse_key": "true", "null_marker": "NULL"}
    assert parsed(b"NULL\tNULL\tNULL", **given) == ParsedLine(None)
    assert parsed(b"h:NULL\tk\tv", **given) == ParsedLine(b"v", b"k", [("h", None)])


def test_a_missing_separator_is_an_error_that_may_be_ignored():
    with pytest.raises(CommandFailed) as refused:
        parsed(b"alone", parse_key="true")
    assert refused.value.message == "No key separator found on line number 1: 'alone'."
    with pytest.raises(CommandFailed, match="No header key separator found in pair 'h' on line number 1"):
        parsed(b"h\tv", parse_headers="true")
    assert parsed(b"alone", parse_key="true", ignore_error="true") == ParsedLine(b"alone")
    assert parsed(b"h\tv", parse_headers="true", ignore_error="true") == ParsedLine(b"v", None, [("h", None)])


def test_separators_that_cannot_be_told_apart_are_refused():
    with pytest.raises(click.UsageError, match=r"headers.separator and headers.key.separator must differ"):
        line_reader({"headers.separator": ":"})
    with pytest.raises(click.UsageError, match=r"null.marker and key.separator must differ"):
        line_reader({"null.marker": "\t", "headers.delimiter": "|"})
    with pytest.raises(click.UsageError, match="unknown property 'bogus'"):
        line_reader({"bogus": "1"})


def shown(record, **properties):
    return line_format({name.replace("_", "."): value for name, value in properties.items()}).line(record)


RECORD = ConsumerRecord("t", 3, 7, 1000, b"k", b"v", (("h", b"1"), ("i", None)), leader_epoch=2)
EVERYTHING = {f"print_{part}": "true" for part in ("timestamp", "partition", "offset", "epoch", "headers", "key")}


def test_a_record_is_its_value_unless_more_is_asked_for():
    assert shown(RECORD) == b"v\n"
    assert shown(RECORD, **EVERYTHING) == b"CreateTime:1000\tPartition:3\tOffset:7\tEpoch:2\th:1,i:null\tk\tv\n"
    assert shown(RECORD, print_key="true", print_value="false", line_separator=";") == b"k;"
    assert shown(RECORD, print_headers="true", key_separator="|", headers_separator=" ") == b"h:1 i:null|v\n"


def test_what_a_record_lacks_is_said():
    bare = ConsumerRecord("t", 0, 0, -1, None, None)
    assert shown(bare, **EVERYTHING, null_literal="-") == (
        b"NO_TIMESTAMP\tPartition:0\tOffset:0\tEpoch:NOT_PRESENT\tNO_HEADERS\t-\t-\n"
    )


@pytest.fixture
def fresh(on, request):
    """A topic of one test."""
    name = request.node.name.replace("_", "-")[:100]
    on.create(name, "--replication-factor", "3")
    return name


def test_lines_go_through_the_cluster_and_come_back(on, fresh):
    sent = on("produce", "--topic", fresh, "--key-separator", "|", "--headers", "--compression", "lz4", "--acks", "all",
              given=b"h:1\tk1|v1\nh:2\tk2|v2\r\nh:3\tk3|last")  # fmt: skip
    assert sent == (0, "", "")
    read = on(
        "consume", "--topic", fresh, "--from-beginning", "--max-messages", "3", "--key-separator", "|", "--headers"
    )
    assert read == (0, "h:1|k1|v1\nh:2|k2|v2\nh:3|k3|last\n", "Processed a total of 3 messages\n")
    assert on("consume", "--topic", fresh, "--partition", "0", "--offset", "1", "--max-messages", "1").out == "v2\n"
    assert on("consume", "--include", f"{fresh[:-1]}.", "--from-beginning", "--max-messages", "1").out == "v1\n"


def test_many_lines_keep_their_order(on, fresh):
    given = b"".join(b"%d\n" % number for number in range(8_000))
    assert on("produce", "--topic", fresh, given=given).code == 0
    assert on("consume", "--topic", fresh, "--from-beginning", "--max-messages", "8000").out.encode() == given


def test_a_group_goes_on_where_it_stopped(on, fresh):
    on("produce", "--topic", fresh, given=b"1\n2\n3\n")
    for value in ("1\n", "2\n", "3\n"):
        result = on("consume", "--topic", fresh, "--group", fresh, "--from-beginning", "--max-messages", "1")
        assert result.out == value


def test_waiting_ends_with_the_timeout(on, fresh):
    result = on("consume", "--topic", fresh, "--timeout-ms", "50")
    assert result == (0, "", "Processed a total of 0 messages\n")


def test_a_record_that_is_refused_is_exit_code_1(on):
    on.create("narrow", "--config", "max.message.bytes=100")
    result = on("produce", "--topic", "narrow", given=b"x" * 1000 + b"\n")
    assert result.code == 1
    assert result.err.startswith("Record 1 for narrow-0: ")
    assert result.err.endswith("(MESSAGE_TOO_LARGE).\n")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("consume",), "--topic or --include is required."),
        (("consume", "--topic", "t", "--include", "t"), "--topic and --include cannot be used together."),
        (("consume", "--topic", "t", "--offset", "1"), "--offset requires --partition."),
        (("consume", "--topic", "t", "--partition", "0", "--offset", "x"), "'x' is not valid; expected an offset"),
        (("consume", "--topic", "t", "--command-property", "bogus=1"), "bogus is not an option of this client"),
        (("consume", "--topic", "t", "--property", "print.everything=true"), "unknown property 'print.everything'"),
        (("consume", "--include", "("), "--include: '(' is not a valid regular expression"),
        (("produce",), "Missing option '--topic'."),
        (("produce", "--topic", "t", "--acks", "2"), "'2' is not one of '0', '1', '-1', 'all'."),
        (("produce", "--topic", "t", "--producer-property", "linger.ms=x"), "linger.ms must be an integer, not 'x'"),
    ],
)
def test_wrong_flags_are_named(tidelog, arguments, part):
    result = tidelog(*arguments)
    assert (result.code, result.out) == (1, "")
    assert part in result.err
