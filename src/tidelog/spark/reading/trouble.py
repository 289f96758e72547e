"""What an error of a task's client means for the query: one sentence with the place, the option and the remedy."""

from typing import TYPE_CHECKING

from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.access import Access
from tidelog.spark.reading.loss import Losses
from tidelog.spark.reading.topics import Chosen, find

if TYPE_CHECKING:
    from tidelog.spark.reading.task import Range

UNDECODABLE = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class Undecodable(Exception):
    """A batch whose bytes are no records."""


def judge(error: ApiError, part: "Range", place: int) -> None:
    """Raise what is wrong. A topic that is gone is lost records: only told of where failOnDataLoss is false."""
    if error.code in UNDECODABLE:
        raise Undecodable(
            f"{part.name}: what stands at offset {place} or soon behind it is no batch of records: {error}; "
            "compare the replicas with `tidelog audit`, or start behind it with option 'startingOffsets'"
        )
    if _is_there(part):
        raise ApiError(error.code, f"{part.name} cannot be read at offset {place}: {error}; is its leader well?")
    losses = Losses(fails=part.fail_on_data_loss)
    losses.report(f"{part.name} is gone, and with it offsets {place} to {part.end}, which were not read yet")


def _is_there(part: "Range") -> bool:
    with Access.of(part.bootstrap, part.client).looking() as admin:
        return part.name in find(admin, Chosen("subscribe", (part.topic,))).epochs
