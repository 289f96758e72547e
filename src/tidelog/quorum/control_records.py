"""Control records of the metadata log and its snapshots: who leads and votes, where a snapshot begins and ends."""

from collections.abc import Iterable
from typing import Any

from tidelog.quorum.voters import VoterSet
from tidelog.wire import codec
from tidelog.wire.message import key_of
from tidelog.wire.messages.cluster.metadata_log import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.wire.records import CONTROL, BatchBuilder, Record

Control = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

_CONTROLS: dict[int, type[Any]] = {
    key_of(cls): cls
    for cls in (LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord, VotersRecord)
}


def control_batch(
    messages: Iterable[Control], *, timestamp: int, base_offset: int, epoch: int, version: int = 0
) -> bytes:
    """A batch of control records, in the log or in a snapshot."""
    builder = BatchBuilder()
    for message in messages:
        key = b"\x00\x00" + key_of(message).to_bytes(2, "big")
        builder.append(Record(timestamp=timestamp, key=key, value=codec.encode(message, version)))
    return builder.build(base_offset=base_offset, leader_epoch=epoch, attributes=CONTROL)


def control_of(record: Record) -> Control | None:
    """What a record of a control batch says; None for kinds that are not of the metadata log."""
    kind = int.from_bytes((record.key or b"")[2:4], "big")
    value = record.value or b""
    cls = _CONTROLS.get(kind)
    version = int.from_bytes(value[:2], "big")
    if cls is None:
        return None
    found: Control = codec.decode(cls, version, value)
    return found


def leader_change(leader: int, voters: VoterSet) -> LeaderChangeMessage:
    everyone = [LeaderChangeVoter(voter_id=key.id, voter_directory_id=key.directory) for key in voters]
    return LeaderChangeMessage(version=int(voters.directories), leader_id=leader, voters=everyone)
