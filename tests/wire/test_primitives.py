"""Varints, against arithmetic done the slow way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ProtocolViolation
from tidelog.wire.primitives import MAX_TAGGED_FIELDS, check_tagged_fields, read_uvarint, skip_tagged_fields, uvarint


def sevens(value):
    """The seven-bit groups of a number, lowest first."""
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127)
    return groups


@given(st.integers(0, 2**32 - 1))
def test_a_number_comes_back(value):
    sent = uvarint(value)
    assert [byte & 127 for byte in sent] == sevens(value)
    assert [byte > 127 for byte in sent] == [True] * (len(sent) - 1) + [False]
    assert read_uvarint(b"?" + sent + b"?", 1) == (value, 1 + len(sent))


def test_a_number_of_six_bytes_is_refused():
    with pytest.raises(ProtocolViolation, match="varint"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)


def test_a_number_cut_short_ends_with_the_buffer():
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


def test_tagged_fields_are_skipped():
    sent = b"\x02\x00\x03abc\x05\x00rest"
    assert skip_tagged_fields(sent, 0, len(sent)) == len(sent) - 4


@pytest.mark.parametrize("sent", [b"\x01", b"\x01\x00\x02a", b"\x02\x00\x00\x01"])
def test_tagged_fields_beyond_the_end_are_refused(sent):
    with pytest.raises(ProtocolViolation, match="tagged field"):
        skip_tagged_fields(sent, 0, len(sent))


def test_the_number_of_tagged_fields_is_bounded():
    check_tagged_fields(MAX_TAGGED_FIELDS, 1_000_000)
    with pytest.raises(ProtocolViolation):
        check_tagged_fields(MAX_TAGGED_FIELDS + 1, 1_000_000)
    with pytest.raises(ProtocolViolation):
        check_tagged_fields(5, 9)
