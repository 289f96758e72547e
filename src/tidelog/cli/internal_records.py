"""Decodes records of Kafka's internal topics to JSON, by the type in the key and the version in the value."""

from collections.abc import Collection
from struct import Struct, error
from typing import Any, NamedTuple

from tidelog.errors import ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.json_form import to_json
from tidelog.wire.messages.groups import group_records as groups
from tidelog.wire.messages.transactions import transaction_records as transactions

_NUMBER = Struct(">h")

COMMITTED_OFFSETS = (0, 1)
GROUP_METADATA = (2,)
TRANSACTIONS = (0,)


class RecordFormat(NamedTuple):
    key: type[Any]
    value: type[Any]


def _formats(module: Any) -> dict[int, RecordFormat]:
    """The formats of a module, in which classes are declared in pairs: `…Key`, with the record type, and `…Value`."""
    keys = [each for name, each in vars(module).items() if name.endswith("Key") and hasattr(each, "__key__")]
    return {key.__key__: RecordFormat(key, getattr(module, f"{key.__name__.removesuffix('Key')}Value")) for key in keys}


GROUP_TOPIC: dict[int, RecordFormat] = {
    0: RecordFormat(groups.OffsetCommitKey, groups.OffsetCommitValue),  # written by Kafka before 0.9
    **_formats(groups),
}
TRANSACTION_TOPIC = _formats(transactions)


class UnreadableRecord(ValueError):
    """Not a record of this topic, or a record of an unknown format."""


def record_as_json(
    formats: dict[int, RecordFormat], key: bytes, value: bytes | None, only: Collection[int]
) -> dict[str, Any] | None:
    """Key and value as Kafka's formatters print them; None if the record type is not in `only`."""
    try:
        (kind,) = _NUMBER.unpack_from(key)
        if kind not in only:
            return None
        found = formats[kind]
        shown_key = {"type": kind, "data": to_json(codec.decode(found.key, 0, key[2:]), 0)}
        return {"key": shown_key, "value": None if value is None else _value(found, value)}
    except (ProtocolViolation, KeyError, ValueError, error) as fault:
        raise UnreadableRecord(f"a record with the key {key.hex()}: {fault}") from fault


def _value(found: RecordFormat, value: bytes) -> dict[str, Any]:
    (version,) = _NUMBER.unpack_from(value)
    return {"version": version, "data": to_json(codec.decode(found.value, version, value[2:]), version)}
