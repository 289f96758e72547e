"""Where a record of home is in the copy: by halving, over the header with the offset at home."""

from tidelog.client.results import ConsumerRecord
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.blocking.sockets import now
from tidelog.shell.transport import Consumer

OFFSET, TIME = "tidelog.mirror.offset", "tidelog.mirror.timestamp"
"""Headers of a copy: decimal numbers, the second in milliseconds."""
PATIENCE_S = 30.0
LOOK_S = 0.05
"""A poll that only passes a gap has nothing to return and takes all the time that it is given."""


class NoCopy(Exception):
    """A record that the mirror has not written is in a topic that only it may write."""


def home_offset(record: ConsumerRecord) -> int:
    for name, value in reversed(record.headers):
        if name == OFFSET and value is not None:
            return int(value)
    raise NoCopy(
        f"{record.topic}-{record.partition} has a record at {record.offset} without the header {OFFSET}: "
        "write nothing else to a mirrored topic, or give option 'prefix'"
    )


class CopiedOffsets:
    """Looks into the copy with one consumer, which reads only what is committed."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def of(self, place: TopicPartition, home: int) -> int:
        """The offset of the first copy that at home was at `home` or beyond; where there is none yet, the end."""
        low = self._consumer.beginning_offsets([place])[place]
        end = high = self._consumer.end_offsets([place])[place]
        self._consumer.assign([place])
        while low < high:
            middle = (low + high) // 2
            found = self._first_from(place, middle, end)
            if found is None or home_offset(found) >= home:
                high = middle
            else:
                low = found.offset + 1
        record = self._first_from(place, low, end)
        return end if record is None else record.offset

    def _first_from(self, place: TopicPartition, offset: int, end: int) -> ConsumerRecord | None:
        """The record there, or after a gap; None where only gaps follow. ApiError where nobody gives it."""
        self._consumer.seek(place, offset)
        until = now().mono + int(PATIENCE_S * 1000)
        while self._consumer.position(place) < end:
            found = self._consumer.poll(LOOK_S, 1)
            if found:
                return found[0] if found[0].offset < end else None
            if now().mono > until:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{place} cannot be read at {offset} in {PATIENCE_S:g} s")
        return None
