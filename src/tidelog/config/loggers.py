"""What a broker writes into its log: a level for each family of events, changed while it runs and kept in memory only.

A logger is named after the first word of the events it is for (`partition` of `partition.elected`); `root` holds for
those that have no level of their own (KIP-412).
"""

from collections.abc import Mapping, Sequence

from tidelog.config.alter import Change, Operation
from tidelog.errors import ApiError, ErrorCode

ROOT = "root"
FAMILIES = (
    *("broker", "config", "connection", "controller", "coordinator", "disk", "election", "folder", "isr", "log"),
    *("metadata", "partition", "partitions", "peer", "reassignment", "replica", "replicas", "request", "shutdown"),
    *("store", "topic"),
)
LOGGERS = (*FAMILIES, ROOT)
LEVELS = {"TRACE": 0, "DEBUG": 0, "INFO": 1, "WARN": 2, "ERROR": 3, "FATAL": 4, "OFF": 4}
"""Kafka's words; a line is written where its own level is at least as high. Events know no finer one than debug."""

DEFAULT = "INFO"


def level_of(levels: Mapping[str, str], logger: str) -> str:
    """The level in force."""
    return levels.get(logger) or levels.get(ROOT) or DEFAULT


def alter_loggers(levels: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """The levels that are set after these changes; INVALID_CONFIG for a logger or level that is none."""
    altered = dict(levels)
    for change in changes:
        if change.name not in LOGGERS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"There is no logger {change.name!r}; there is {', '.join(LOGGERS)}."
            )
        if change.operation == Operation.DELETE:
            if change.name == ROOT:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The root logger always has a level.")
            altered.pop(change.name, None)
        elif change.operation == Operation.SET:
            altered[change.name] = _level(change)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"A level is set or deleted; {change.name} is no list.")
    return altered


def _level(change: Change) -> str:
    level = (change.value or "").upper()
    if level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"{change.name} must be one of {', '.join(LEVELS)}, not {change.value!r}."
        )
    return level
