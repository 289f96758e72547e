"""Cutting a stream of bytes into frames: four bytes of length, then that many bytes.

The rule of the buffers: a view that `received` returned is good until `buffer` or `recycle` is called on this reader,
or `buffer` on one that shares its `Buffers`. Many small frames are cut from one scratch buffer without a copy, and what
is left of an incomplete frame waits outside of it. A longer frame is received straight into a buffer of its own, which
is used again only when no view of it lives.

A length alone makes nobody allocate much: a buffer of its own begins with `trusted` bytes, unless one that is there
already fits, and is doubled as bytes arrive. All readers of a `Buffers` share a budget. A reader that needs more than
is left is starved (`is_starved`): its owner reads nothing until `grow` succeeds.
"""

from collections.abc import Sequence
from functools import cached_property
from struct import Struct

from tidelog.errors import ProtocolViolation

SCRATCH_BYTES = 256 * 1024

_PREFIX = Struct(">i")
_STRAIGHT_BYTES = 16 * 1024  # an incomplete frame longer than this gets its own buffer
TRUSTED_BYTES = 64 * 1024
_SPARE_BYTES = 8 * 1024 * 1024
_GRAIN = 64 * 1024  # own buffers come in multiples of this, so that frames of similar size can use them again
_TIGHT_BYTES = 4 * 1024  # what is read at once of a new frame while the budget is used up
UNLIMITED = 2**63 - 1


class Buffers:
    """The memory of all readers on one event loop, where `buffer`, the receiving and `received` follow at once. Of long
    frames' buffers it keeps `spare` bytes for the next ones. `used` is what incomplete frames hold, and those whose
    views may still be needed; it exceeds the budget only if an owner insists (`FrameReader.grow`)."""

    def __init__(self, spare: int = _SPARE_BYTES, budget: int = UNLIMITED) -> None:
        self.budget = budget
        self.used = 0
        self._spare_bytes = spare
        self._spares: list[bytearray] = []

    @cached_property
    def scratch(self) -> memoryview:
        return memoryview(bytearray(SCRATCH_BYTES))

    def spare(self, size: int) -> bytearray | None:
        """A buffer of at least `size` bytes that is there already, with any content."""
        for index, spare in enumerate(self._spares):
            if size <= len(spare) <= 2 * size + _GRAIN and self.used + len(spare) <= self.budget:
                return self._spares.pop(index)
        return None

    def give(self, buffer: bytearray) -> None:
        """Keep the buffer for later, unless views of it live or enough is kept."""
        if len(buffer) < _GRAIN or len(buffer) + sum(map(len, self._spares)) > self._spare_bytes:
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
        self._charged = 0  # this reader's part of `Buffers.used`
        self._expects_long = False

    def __repr__(self) -> str:
        waiting = f"{self._own_filled} of {self._frame_length}" if self._own is not None else str(len(self._head))
        return f"<FrameReader limit={self.limit} incomplete={waiting}>"

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without having cut off a frame."""
        return self._own is None and not self._head

    @property
    def arrived(self) -> int:
        """How many bytes of the incomplete frame have come."""
        return len(self._head) if self._own is None else self._own_filled

    @property
    def held(self) -> int:
        """The bytes of memory that the reader holds, apart from what all share."""
        return self._charged

    @property
    def is_starved(self) -> bool:
        """Whether the incomplete frame needs more memory than the budget has: nothing can be received."""
        return self._own is not None and self._own_filled == self._own_end

    def buffer(self) -> memoryview:
        """Where to receive next; never empty, unless the reader is starved. Views handed out before are dead from here
        on."""
        if self._used is not None:
            self.recycle()
        if self._own is not None:
            return memoryview(self._own)[self._own_filled : self._own_end]
        scratch = self._buffers.scratch
        have = len(self._head)
        if have:
            scratch[:have] = self._head
        # After a long frame the next one is probably long too: less of it goes the way through the scratch buffer.
        if self._buffers.used >= self._buffers.budget:
            return scratch[have : have + _TIGHT_BYTES]
        return scratch[have:_STRAIGHT_BYTES] if self._expects_long and have < _STRAIGHT_BYTES else scratch[have:]

    def recycle(self) -> None:
        """The frame that came last is not needed any more: its buffer may be used again."""
        if self._used is not None:
            self._buffers.give(self._used)
            self._used = None
            self._charge(len(self._head) if self._own is None else len(self._own))

    def release(self) -> None:
        """The connection has ended: give up everything."""
        self._head, self._own, self._used = b"", None, None
        self._charge(0)

    def _charge(self, size: int) -> None:
        self._buffers.used += size - self._charged
        self._charged = size

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
        if self._head or self._charged:
            self._charge(len(self._head))
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
            self._charge(len(self._head))
            return
        self._charge(0)
        self._frame_length = length
        self._own_filled = len(part)
        self._allocate(min(length, max(self.trusted, 2 * len(part))), least=len(part))[: len(part)] = part

    def _allocate(self, size: int, least: int) -> bytearray:
        """A buffer for the incomplete frame: the whole of it if one is there already, else of `size` bytes, or `least`
        where the budget has no more."""
        own = self._buffers.spare(self._frame_length)
        if own is not None:
            size = self._frame_length
        else:
            free = self._buffers.budget - self._buffers.used
            size = size if size <= free else least
            own = bytearray(size if size < _GRAIN else -(-size // _GRAIN) * _GRAIN)
        self._own, self._own_end = own, size
        self._charge(len(own))
        return own

    def _received_own(self, own: bytearray, count: int) -> list[memoryview]:
        self._own_filled += count
        if self._own_filled < self._own_end:
            return []
        if self._own_end < self._frame_length:
            self.grow()
            return []
        self._own = None
        self._used = own
        self._expects_long = True
        return [memoryview(own)[: self._frame_length]]

    def grow(self, *, insist: bool = False) -> bool:
        """The sender of a very long frame has shown as many bytes as it was trusted with: trust it with twice that.
        False where the budget has no room; with `insist` it is exceeded."""
        own, filled = self._own, self._own_filled
        assert own is not None
        size = min(2 * max(filled, self.trusted), self._frame_length)
        if not insist and size - len(own) > self._buffers.budget - self._buffers.used:
            return False
        self._charge(0)
        self._allocate(size, least=size)[:filled] = memoryview(own)[:filled]
        self._buffers.give(own)
        return True


def _copies(frames: Sequence[memoryview]) -> list[memoryview]:
    return [memoryview(bytearray(frame)) for frame in frames]
