"""Kafka's file names in a partition's folder: `%020d` of an offset, a kind, and a suffix while a file is being
replaced."""

METADATA_TOPIC = "__cluster_metadata"
"""The log of Kafka's controllers: it lies in log folders, but must not be created as a topic."""

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"

CUT = ".cut"
"""An empty file of Tidelog; Kafka ignores it."""

INDEXES = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_FILES = (LOG, *INDEXES)

_DIGITS = 20


def name(offset: int, kind: str) -> str:
    return f"{offset:020d}{kind}"


def offset_of(file_name: str) -> int | None:
    """The offset at the start of a name, whatever follows; None if there is none."""
    digits, dot, _ = file_name.partition(".")
    return int(digits) if dot and len(digits) == _DIGITS and digits.isdecimal() else None


def is_kind(file_name: str, kind: str) -> bool:
    """Whether the name is an offset and this kind, without a suffix."""
    return len(file_name) == _DIGITS + len(kind) and file_name.endswith(kind) and file_name[:_DIGITS].isdecimal()
