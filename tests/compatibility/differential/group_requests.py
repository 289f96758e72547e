"""The group APIs' requests from few words."""

import struct
from typing import Any

Ids = dict[str, bytes]


def subscription(*topics: str) -> bytes:
    """A consumer's metadata (ConsumerProtocolSubscription v0)."""
    named = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return b"\0\0" + struct.pack(">i", len(topics)) + named + b"\xff\xff\xff\xff"


def join(group: str, member: str = "", *, instance: str | None = None, **more: Any) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": subscription("t")}]
    usual = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}
    named = {"group_id": group, "member_id": member, "group_instance_id": instance}
    return {**usual, "protocols": protocols, **named, **more}


def sync(
    group: str,
    member: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    kind: str | None = None,
    protocol: str | None = None,
) -> dict[str, Any]:
    given = [{"member_id": name, "assignment": value} for name, value in (assignments or {}).items()]
    who = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}
    return {**who, "protocol_type": kind, "protocol_name": protocol, "assignments": given}


def leave(group: str, *members: tuple[str, str | None]) -> dict[str, Any]:
    named = [{"member_id": member, "group_instance_id": instance} for member, instance in members]
    return {"group_id": group, "member_id": members[0][0] if members else "", "members": named}


def commit(
    ids: Ids,
    group: str,
    offsets: dict[str, dict[int, int]],
    member: str = "",
    generation: int = -1,
    *,
    instance: str | None = None,
    metadata: str | None = "",
) -> dict[str, Any]:
    topics = [
        {
            "name": name,
            "topic_id": ids[name],
            "partitions": [
                {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
                for index, offset in partitions.items()
            ],
        }
        for name, partitions in offsets.items()
    ]
    who = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member}
    return {**who, "group_instance_id": instance, "retention_time_ms": -1, "topics": topics}


def fetch_one(group: str, wanted: dict[str, list[int]] | None) -> dict[str, Any]:
    """Before version 8."""
    topics = None if wanted is None else [{"name": name, "partition_indexes": each} for name, each in wanted.items()]
    return {"group_id": group, "topics": topics}


def fetch_groups(ids: Ids, wanted: dict[str, dict[str, list[int]] | None], **more: Any) -> dict[str, Any]:
    """From version 8 on."""
    groups = [
        {
            "group_id": group,
            "topics": None
            if topics is None
            else [
                {"name": name, "topic_id": ids[name], "partition_indexes": indexes} for name, indexes in topics.items()
            ],
        }
        for group, topics in wanted.items()
    ]
    return {"groups": groups, **more}


def offset_delete(group: str, **wanted: list[int]) -> dict[str, Any]:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in wanted.items()
    ]
    return {"group_id": group, "topics": topics}
