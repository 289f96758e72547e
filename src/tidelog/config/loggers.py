"""The broker's loggers: a level for each family of events, changed while the broker runs and kept in memory only.

A logger is named after the first word of its events (`partition` for `partition.elected`); `root` applies to those
without a level of their own (KIP-412).
"""

from collections.abc import Mapping, Sequence

from tidelog.config.alter import Change, Operation
from tidelog.errors import ApiError, ErrorCode

ROOT = "root"
FAMILIES = (
    *("access", "audit", "broker", "config", "connection", "controller", "coordinator", "disk", "election"),
    *("folder", "isr", "log", "metadata", "partition", "partitions", "peer", "reassignment", "replica", "replicas"),
    *("request", "shutdown", "store", "topic"),
)
LOGGERS = (*FAMILIES, ROOT)
LEVELS = {"TRACE": 0, "DEBUG": 0, "INFO": 1, "WARN": 2, "ERROR": 3, "FATAL": 4, "OFF": 4}
"""Kafka's level names; a line is written if its own level is at least as high. Events have no finer level than
debug."""

DEFAULT = "INFO"


def level_of(levels: Mapping[str, str], logger: str) -> str:
    """The level in force."""
    return levels.get(logger) or levels.get(ROOT) or DEFAULT


def alter_loggers(levels: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """The levels set after these changes; INVALID_CONFIG for an unknown logger or level."""
    altered = dict(levels)
    for change in changes:
        if change.name not in LOGGERS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Unknown logger {change.name!r}; expected one of {', '.join(LOGGERS)}."
            )
        if change.operation == Operation.DELETE:
            if change.name == ROOT:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The root logger always has a level.")
            altered.pop(change.name, None)
        elif change.operation == Operation.SET:
            altered[change.name] = _level(change)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"The level of {change.name} can only be set or deleted.")
    return altered


def _level(change: Change) -> str:
    level = (change.value or "").upper()
    if level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"{change.name} must be one of {', '.join(LEVELS)}, not {change.value!r}."
        )
    return level
