"""Lines of other processes are read with a deadline, and nothing behind a line is taken from whoever reads on."""

import os

import pytest

from tests.output import line_with, read_line


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading) as text, os.fdopen(writing, "wb", buffering=0) as out:
        yield text, out


def test_a_process_that_says_nothing_fails_its_test_within_the_deadline(pipe):
    text, out = pipe
    out.write(b"half a l")
    with pytest.raises(AssertionError, match=r"no line within 0\.05 s, only b'half a l'"):
        read_line(text, within_s=0.05)
    out.write(b"one\ntwo\n")
    with pytest.raises(AssertionError, match="no line"):
        line_with(text, "three", within_s=0.05)


def test_what_stands_behind_a_line_is_left_to_be_read(pipe):
    text, out = pipe
    out.write("one é\ntwo\nthree".encode())
    assert read_line(text) == "one é\n"
    assert line_with(text, "w") == "two"
    out.close()
    assert os.read(text.fileno(), 100) == b"three"
    assert read_line(text) == ""
    with pytest.raises(AssertionError, match="the output ended without 'four'"):
        line_with(text, "four")
