"""Requests of every API and version, spoiled in every way, to the decoders. Invariant: each is a request or one
ProtocolViolation, and takes memory and steps in proportion to its bytes; the decoder in steps agrees with the other.

The messages are drawn from their declarations, and each length and count in them is known (`check.fuzz`).
"""

import re
import tracemalloc
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tidelog.api.registry import APIS, CONTROLLER_APIS
from tidelog.check.fuzz.frames import CHANGES, frames, joined, request_pieces
from tidelog.check.fuzz.messages import drawn, pieces_of
from tidelog.errors import ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS

ALL = {**CONTROLLER_APIS, **APIS}
MOST_ENTRIES = 100_000
PER_BYTE = 2_000
"""Bytes of memory that a byte of a request may cost: a structure with many fields, all with their defaults."""


def outcome(body):
    """The request, or None for a violation; anything else that is raised is a defect."""
    try:
        return codec.decode_request(body)[1]
    except ProtocolViolation:
        return None


def outcome_in_steps(body):
    """As `outcome`, and whether the entries and steps were in proportion."""
    steps = 0
    try:
        decoding = codec.request_in_steps(body, MOST_ENTRIES)
        while True:
            next(decoding)
            steps += 1
    except StopIteration as result:
        _, request, entries = result.value
        assert steps <= entries <= len(body)
        return request
    except ProtocolViolation:
        assert steps <= len(body)
        return None


def check(body):
    found = outcome(body)
    assert shown(outcome_in_steps(body)) == shown(found)
    return found


def shown(request):
    """For comparison: NaN is not equal to itself, and views of records have their addresses."""
    return re.sub("<memory at [^>]*>", "records", repr(request))


def check_version(key, version, chance, rounds):
    for _ in range(rounds):
        pieces = request_pieces(key, version, chance)
        body = joined(pieces)
        assert check(body) is not None
        for change in CHANGES.values():
            check(change(pieces, chance)[4:])
        for end in range(0, len(body), max(1, len(body) // 40)):
            assert check(body[:end]) is None


def check_memory(key, version, chance):
    pieces = request_pieces(key, version, chance)
    for change in CHANGES.values():
        body = change(pieces, chance)[4:]
        outcome(body)  # what is compiled once is not this request's
        tracemalloc.start()
        outcome(body)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < PER_BYTE * len(body) + 50_000, change


def versions(key):
    return range(ALL[key].low, ALL[key].high + 1)


def test_spoiled_requests_of_the_newest_versions():
    for key, api in ALL.items():
        check_version(key, api.high, Random(key), 1)


@pytest.mark.parametrize("key", ALL, ids=lambda key: ALL[key].name)
@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=3, deadline=None, phases=[Phase.generate])  # to shrink one would take minutes
def test_every_version_of_a_spoiled_request(key, chance):
    for version in versions(key):
        check_version(key, version, chance, 1)


@pytest.mark.parametrize("key", ALL, ids=lambda key: ALL[key].name)
def test_every_version_takes_memory_in_proportion(key):
    for version in versions(key):
        check_memory(key, version, Random(version))


@pytest.mark.parametrize("key", ALL, ids=lambda key: ALL[key].name)
def test_every_cut_is_a_violation(key):
    for version in versions(key):
        body = joined(request_pieces(key, version, Random(version)))
        for end in range(len(body)):
            assert outcome(body[:end]) is None


@pytest.mark.parametrize("key", ALL, ids=lambda key: ALL[key].name)
def test_every_version_is_encoded_as_the_compiled_encoder_does(key):
    for version in versions(key):
        request = drawn(SCHEMAS[key].request, version, Random(version))
        parts = codec.encode_request(key, version, 5, "me", request)
        assert joined(pieces_of(request, key, version, 5, "me")) == b"".join(map(bytes, parts))[4:]


def test_a_seed_repeats_its_frames():
    some = list(frames(3, 100))
    assert list(frames(3, 100)) == some
    assert list(frames(3, 40)) == some[:40]
    assert list(frames(4, 100)) != some
    assert {frame.change for frame in frames(3, 2000)} == set(CHANGES)


def test_a_long_request_of_an_unknown_version_of_api_versions_is_to_be_answered():
    """The decoder in steps read it in the oldest version, and refused its bytes."""
    body = bytes.fromhex("00127fff00000007ffff00") + b"\xff" * 5_000
    assert repr(check(body)) == repr(SCHEMAS[18].request())
