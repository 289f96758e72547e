"""However a stream of frames is cut, the same frames come out; impossible lengths are refused before allocation."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ProtocolViolation
from tidelog.wire.frames import SCRATCH_BYTES, Buffers, FrameReader

LIMIT = 100 * 1024 * 1024


def stream_of(frames):
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def receive(reader, stream, sizes):
    """Hand the stream over in pieces of the given sizes, as a socket would; copies what must outlive `buffer`."""
    frames = []
    position = 0
    turn = 0
    while position < len(stream):
        space = reader.buffer()
        count = min(len(space), sizes[turn % len(sizes)], len(stream) - position)
        space[:count] = stream[position : position + count]
        frames += [bytes(frame) for frame in reader.received(count)]
        position += count
        turn += 1
    return frames


some_frames = st.lists(
    st.integers(1, 40) | st.integers(16_000, 17_000) | st.just(SCRATCH_BYTES) | st.just(300_000), min_size=1, max_size=8
).map(lambda sizes: [bytes([index + 1]) * size for index, size in enumerate(sizes)])


@given(
    some_frames,
    st.lists(st.integers(1, 9) | st.integers(1000, 400_000), min_size=1, max_size=6).filter(
        lambda sizes: max(sizes) > 500
    ),
)
def test_any_cut_gives_the_same_frames(frames, sizes):
    reader = FrameReader(LIMIT)
    assert receive(reader, stream_of(frames), sizes) == frames
    assert reader.is_between_frames


def test_every_cut_of_small_frames_gives_the_same_frames():
    frames = [b"a", b"bc" * 50, b"d" * 7]
    stream = stream_of(frames)
    for cut in range(1, len(stream)):
        reader = FrameReader(LIMIT)
        head = [bytes(frame) for frame in reader.feed(stream[:cut])]
        assert head + [bytes(frame) for frame in reader.feed(stream[cut:])] == frames


def test_frames_longer_than_a_length_is_trusted_arrive_whole():
    frame = bytes(range(256)) * 4 * 1024 * 9  # 9 MiB
    reader = FrameReader(LIMIT)
    assert receive(reader, stream_of([frame, b"next"]), [1_000_003]) == [frame, b"next"]


def test_a_length_alone_makes_nobody_allocate_it():
    reader = FrameReader(LIMIT)
    reader.feed(struct.pack(">i", LIMIT) + b"x" * 10)
    assert len(reader.buffer()) <= 64 * 1024
    assert reader.held <= 64 * 1024


def offer(reader, stream):
    """Hand over as much as the reader takes: the frames, and what is left of the stream."""
    frames = []
    while stream and not reader.is_starved:
        space = reader.buffer()
        count = min(len(space), len(stream))
        space[:count] = stream[:count]
        frames += [bytes(frame) for frame in reader.received(count)]
        stream = stream[count:]
    return frames, stream


def test_a_reader_that_needs_more_than_the_budget_is_starved_until_there_is_room():
    buffers = Buffers(budget=200_000)
    frame = bytes(range(250)) * 1000
    first, second = FrameReader(LIMIT, buffers), FrameReader(LIMIT, buffers)
    begun, rest = stream_of([frame])[:90_000], stream_of([frame])[90_000:]
    assert [offer(reader, begun) for reader in (first, second)] == [([], b"")] * 2
    assert (first.is_starved, second.is_starved, second.grow()) == (False, True, False)
    assert second.arrived == len(begun) - 4
    frames, left = offer(first, rest)
    assert (frames, first.is_starved) == ([], True)
    assert first.grow(insist=True)
    assert offer(first, left) == ([frame], b"")
    first.recycle()
    assert second.grow()
    frames, left = offer(second, rest)
    assert second.grow(insist=True)
    assert offer(second, left) == ([frame], b"")
    second.recycle()
    assert buffers.used == 0


def test_while_the_budget_is_used_up_little_is_read_of_a_new_frame():
    buffers = Buffers(budget=10)
    reader, other = FrameReader(LIMIT, buffers), FrameReader(LIMIT, buffers)
    reader.feed(struct.pack(">i", 100) + b"x" * 50)
    assert len(other.buffer()) <= 4096
    reader.release()
    assert len(other.buffer()) == SCRATCH_BYTES


@pytest.mark.parametrize("length", [0, -1, -(2**31), 101, 2**31 - 1])
def test_impossible_lengths_are_refused(length):
    with pytest.raises(ProtocolViolation, match=str(length)):
        FrameReader(100).feed(struct.pack(">i", length))


def test_a_frame_of_exactly_the_limit_passes():
    (frame,) = FrameReader(100).feed(stream_of([b"x" * 100]))
    assert frame == b"x" * 100


def test_a_view_that_is_still_held_keeps_its_long_buffer_from_being_used_again():
    buffers = Buffers()
    reader = FrameReader(LIMIT, buffers)
    held = []
    for content in (b"a", b"b", b"c"):
        frame = content * 300_000
        held += reader.feed(stream_of([frame]))
    assert [bytes(view[:1]) for view in held] == [b"a", b"b", b"c"]


def test_a_long_buffer_is_used_again_when_nobody_views_it():
    buffers = Buffers()
    reader = FrameReader(LIMIT, buffers)
    places = set()
    for _ in range(5):
        (view,) = reader.feed(stream_of([b"a" * 300_000]))
        places.add(id(view.obj))
        del view
    assert len(places) == 1


def test_readers_that_share_buffers_do_not_mix_their_streams():
    buffers = Buffers()
    readers = [FrameReader(LIMIT, buffers) for _ in range(3)]
    streams = [stream_of([bytes([65 + index]) * size for size in (5, 20_000, 3)]) for index in range(3)]
    got = [[], [], []]
    for start in range(0, len(streams[0]), 7):
        for index, reader in enumerate(readers):
            got[index] += [bytes(frame) for frame in reader.feed(streams[index][start : start + 7])]
    assert got == [[bytes([65 + index]) * size for size in (5, 20_000, 3)] for index in range(3)]
