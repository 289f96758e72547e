"""The largest requests of every API: one of its arrays has as many entries as wanted, the arrays around it have one."""

from collections.abc import Iterator
from typing import Any

from tests.node.one_broker import TOPIC_ID, OneBroker
from tidelog.wire import message
from tidelog.wire.message import Field, versions_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState

TOPICS = (("t", TOPIC_ID), ("__consumer_offsets", b"g" * 16), ("__transaction_state", b"x" * 16))
RESOURCE_TYPE_TOPIC = 2


def led() -> OneBroker:
    """A broker that leads the one partition of each topic, and coordinates all groups and transactions."""
    broker = OneBroker(min_insync_replicas=1)
    partition = UpdateMetadataPartitionState(
        partition_index=0, leader=0, isr=[0], replicas=[0], leader_epoch=0, controller_epoch=1
    )
    broker.live(
        0,
        topic_states=[
            UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=[partition])
            for name, topic_id in TOPICS
        ],
    )
    for name, topic_id in TOPICS:
        broker.lead(isr=(0,), replicas=(0,), topic=name, topic_id=topic_id)
    return broker


def arrays(key: int, version: int) -> Iterator[tuple[str, ...]]:
    """The paths of all arrays in a request of the API."""
    yield from _arrays(SCHEMAS[key].request, version)


def _arrays(cls: type[Any], version: int) -> Iterator[tuple[str, ...]]:
    for field in _fields(cls, version):
        if field.kind.name == "array":
            yield (field.name,)
        if isinstance(field.element, type):
            yield from ((field.name, *path) for path in _arrays(field.element, version))


def request(key: int, version: int, path: tuple[str, ...], count: int, *, distinct: bool) -> Any:
    """`distinct`: no two entries name the same; otherwise all are the same one."""
    return _made(SCHEMAS[key].request, version, path, count, distinct=distinct)


def _fields(cls: type[Any], version: int) -> Iterator[Field]:
    return (field for field in message.fields(cls) if version in versions_of(field.versions))


def _made(cls: type[Any], version: int, path: tuple[str, ...], count: int, *, distinct: bool, number: int = 0) -> Any:
    made = cls()
    for field in _fields(cls, version):
        inside = bool(path) and field.name == path[0]
        if field.kind.name == "array":
            if inside and len(path) == 1:
                numbers = range(count) if distinct else [0]
                entries = [_entry(field, version, (), 0, distinct=distinct, number=each) for each in numbers]
                setattr(made, field.name, entries if distinct else entries * count)
            elif inside or not path:
                setattr(made, field.name, [_entry(field, version, path[1:], count, distinct=distinct, number=0)])
        elif field.kind.name == "struct" and inside:
            setattr(made, field.name, _made(field.element, version, path[1:], count, distinct=distinct))
        else:
            value = _value(field.kind.name, field.name, number if distinct else -1)
            if value is not None:
                setattr(made, field.name, value)
    return made


def _entry(field: Field, version: int, path: tuple[str, ...], count: int, *, distinct: bool, number: int) -> Any:
    if isinstance(field.element, type):
        return _made(field.element, version, path, count, distinct=distinct, number=number)
    if field.element.name == "binary":
        return b""
    value = _value(field.element.name, "index", number if distinct else -1)
    return RESOURCE_TYPE_TOPIC if value is None else value


def _value(kind: str, name: str, number: int) -> Any:
    """None: the field keeps its default. `number` is -1 where every entry names what exists."""
    if kind == "string":
        return f"t{number}" if number >= 0 else "t"
    if kind == "uuid":
        return number.to_bytes(16) if number >= 0 else TOPIC_ID
    if kind == "int8":
        return RESOURCE_TYPE_TOPIC if name == "resource_type" else None
    return max(number, 0) if kind in ("int32", "int64") and _is_name(name) else None


def _is_name(field: str) -> bool:
    return "partition" in field or "index" in field or field == "producer_id"
