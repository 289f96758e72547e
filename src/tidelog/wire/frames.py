"""Cutting a stream of bytes into frames: four bytes of length, then that many bytes.

The rule of the buffers: a view that `received` returned is good until `buffer` is called again on this reader or on
one that shares its `Buffers`. Many small frames are cut from one scratch buffer without a copy, and what is left of an
incomplete frame waits outside of it. A longer frame is received straight into a buffer of its own, which is used again
only when no view of it lives.
"""

from collections.abc import Sequence
from functools import cached_property
from struct import Struct

from tidelog.errors import ProtocolViolation

SCRATCH_BYTES = 256 * 1024

_PREFIX = Struct(">i")
_STRAIGHT_BYTES = 16 * 1024  # an incomplete frame longer than this gets its own buffer
TRUSTED_BYTES = 2 * 1024 * 1024
_SPARE_BYTES = 8 * 1024 * 1024
_GRAIN = 64 * 1024  # own buffers come in multiples of this, so that frames of similar size can use them again


class Buffers:
    """The memory of all readers on one event loop, where `buffer`, the receiving and `received` follow at once. Of long
    frames' buffers it keeps `spare` bytes for the next ones."""

    def __init__(self, spare: int = _SPARE_BYTES) -> None:
        self._spare_bytes = spare
        self._spares: list[bytearray] = []

    @cached_property
    def scratch(self) -> memoryview:
        return memoryview(bytearray(SCRATCH_BYTES))

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes with any content."""
        for index, spare in enumerate(self._spares):
            if size <= len(spare) <= 2 * size + _GRAIN:
                return self._spares.pop(index)
        return bytearray(-(-size // _GRAIN) * _GRAIN)

    def give(self, buffer: bytearray) -> None:
        """Keep the buffer for later, unless views of it live or enough is kept."""
        if len(buffer) + sum(map(len, self._spares)) > self._spare_bytes:
            return
        try:
            buffer.append(buffer.pop())  # a bytearray refuses to change its size while it is viewed
        except BufferError:
            return
        self._spares.append(buffer)


class FrameReader:
    """The frames of one connection, of at most `limit` bytes each (`socket.request.max.bytes`). A length alone makes it
    allocate `trusted` bytes at most; beyond them, as many bytes must have come first."""

    def __init__(self, limit: int, buffers: Buffers | None = None, trusted: int = TRUSTED_BYTES) -> None:
        self.limit = limit
        self.trusted = trusted
        self._buffers = buffers or Buffers()
        self._head = b""  # the incomplete frame at the end of the scratch buffer, with its prefix as far as it came
        self._own: bytearray | None = None  # the incomplete frame that has its own buffer, without prefix
        self._own_filled = 0  # ≤ _own_end
        self._own_end = 0  # how far it may be filled: the whole frame, or what its sender is trusted with
        self._frame_length = 0
        self._used: bytearray | None = None  # the own buffer whose view was handed out last
        self._expects_long = False

    def __repr__(self) -> str:
        waiting = f"{self._own_filled} of {self._frame_length}" if self._own is not None else str(len(self._head))
        return f"<FrameReader limit={self.limit} incomplete={waiting}>"

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without having cut off a frame."""
        return self._own is None and not self._head

    def buffer(self) -> memoryview:
        """Where to receive next; never empty. Views handed out before are dead from here on."""
        if self._used is not None:
            self._buffers.give(self._used)
            self._used = None
        if self._own is not None:
            return memoryview(self._own)[self._own_filled : self._own_end]
        scratch = self._buffers.scratch
        have = len(self._head)
        if have:
            scratch[:have] = self._head
        # After a long frame the next one is probably long too: less of it goes the way through the scratch buffer.
        return scratch[have:_STRAIGHT_BYTES] if self._expects_long and have < _STRAIGHT_BYTES else scratch[have:]

    def received(self, count: int) -> list[memoryview]:
        """The frames that are complete with the `count` bytes that are now in `buffer`. ProtocolViolation for a
        length that is negative, zero or above the limit; nothing was allocated for it."""
        if self._own is not None:
            return self._received_own(self._own, count)
        scratch = self._buffers.scratch
        end = len(self._head) + count
        self._head = b""
        frames: list[memoryview] = []
        position = 0
        while end - position >= _PREFIX.size:
            length: int = _PREFIX.unpack_from(scratch, position)[0]
            if not 0 < length <= self.limit:
                raise ProtocolViolation(f"a frame of {length} bytes; the limit is {self.limit}")
            start = position + _PREFIX.size
            position = start + length
            if position > end:
                self._keep(scratch[start:end], length)
                return frames
            frames.append(scratch[start:position])
        self._head = bytes(scratch[position:end])
        self._expects_long = False
        return frames

    def feed(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """The frames that are complete with `data`: the same for those who already have the bytes."""
        size = len(data)
        if _PREFIX.size < size <= _STRAIGHT_BYTES and not self._head and self._own is None and self._used is None:
            length: int = _PREFIX.unpack_from(data)[0]
            if length == size - _PREFIX.size and length <= self.limit:  # just one whole frame, as nearly always
                scratch = self._buffers.scratch
                scratch[:size] = data
                self._expects_long = False
                return [scratch[_PREFIX.size : size]]
        frames: list[memoryview] = []
        rest = memoryview(data)
        while rest:
            space = self.buffer()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            rest = rest[count:]
            complete = self.received(count)
            frames += _copies(complete) if rest else complete
        return frames

    def _keep(self, part: memoryview, length: int) -> None:
        """Set the incomplete frame aside, from where the scratch buffer can be used again."""
        if length <= _STRAIGHT_BYTES - _PREFIX.size:
            self._head = _PREFIX.pack(length) + part
            return
        self._own_end = min(length, max(self.trusted, 2 * len(part)))
        self._own = self._buffers.take(self._own_end)
        self._frame_length = length
        self._own_filled = len(part)
        self._own[: len(part)] = part

    def _received_own(self, own: bytearray, count: int) -> list[memoryview]:
        self._own_filled += count
        if self._own_filled < self._own_end:
            return []
        if self._own_end < self._frame_length:
            self._grow(own)
            return []
        self._own = None
        self._used = own
        self._expects_long = True
        return [memoryview(own)[: self._frame_length]]

    def _grow(self, own: bytearray) -> None:
        """The sender of a very long frame has shown as many bytes as it was trusted with: trust it with twice that."""
        self._own_end = min(2 * self._own_end, self._frame_length)
        grown = bytearray(self._own_end)
        grown[: self._own_filled] = memoryview(own)[: self._own_filled]
        self._own = grown


def _copies(frames: Sequence[memoryview]) -> list[memoryview]:
    return [memoryview(bytearray(frame)) for frame in frames]
