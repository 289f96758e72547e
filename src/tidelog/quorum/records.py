"""Records of the metadata log that change the tree, and those of its snapshots: objects ↔ bytes.

A record is framed as Kafka frames its metadata records: frame version, type and version as varints, then the message.
The types from 30000 on are Tidelog's own; Kafka's tools name and skip them. Records of Kafka's types are decoded as
their messages where a formatted folder has them, and are otherwise `Foreign`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.errors import ProtocolViolation
from tidelog.model import NO_ID
from tidelog.ports import Buffer, Change, Check, Create, Delete, Node, Write
from tidelog.wire import codec
from tidelog.wire.message import key_of
from tidelog.wire.messages.cluster import metadata_log as messages
from tidelog.wire.messages.cluster.metadata_log import FeatureLevelRecord, UserScramCredentialRecord
from tidelog.wire.primitives import read_uvarint, uvarint

FRAME_VERSION = 1
MOST_CHANGES = 5_000
MOST_BYTES = 4 * 1_048_576
"""Of one list of changes, which is applied in one turn (about 20 ms). The controller's lists have 501."""
NO_SESSION = 0
"""The session of what the leader writes for the cluster. It never ends, has no ephemeral nodes, and its records are not
numbered, because the leader does not send them."""


class RecordTooLarge(Exception):
    """A record with more changes or bytes than the log accepts; nothing was written."""


class TreeChanges(NamedTuple):
    """One list of changes of a session: all of them are applied, or none. `number` rises with each list of the session,
    so that a late or repeated one is recognized. An empty list is a fence: no lower number is applied after it."""

    session: int
    number: int
    changes: Sequence[Change]


class SessionOpened(NamedTuple):
    """A broker's registration: ends the session `replaces`, opens one whose ID is this record's offset, and applies the
    changes for it. `replaces` is the broker's newest session, whether that is open or not (0: there was none)."""

    broker_id: int
    incarnation: bytes
    log_dirs: tuple[bytes, ...]
    replaces: int
    changes: Sequence[Change]


class SessionEnded(NamedTuple):
    """The end of a session, with its ephemeral nodes. `reason` is for people who read the log."""

    session: int
    reason: str = ""


class StoredNode(NamedTuple):
    """A node of the tree in a snapshot."""

    path: str
    node: Node


class OpenSession(NamedTuple):
    """A session, as the tree and its snapshots know it. `number` is that of its last list of changes."""

    session: int
    broker_id: int
    incarnation: bytes = NO_ID
    log_dirs: tuple[bytes, ...] = ()
    number: int = 0


class LastSession(NamedTuple):
    """The newest session of a broker that has none open, in snapshots."""

    broker_id: int
    session: int


class Foreign(NamedTuple):
    """A record of a type that Tidelog does not apply."""

    type: int


TreeRecord = TreeChanges | SessionOpened | SessionEnded
SnapshotRecord = StoredNode | OpenSession | LastSession
Decoded = TreeRecord | SnapshotRecord | FeatureLevelRecord | UserScramCredentialRecord | Foreign


def encode(record: TreeRecord | SnapshotRecord | FeatureLevelRecord | UserScramCredentialRecord) -> bytes:
    """The value of a record in the log or in a snapshot. RecordTooLarge if the log would refuse the changes."""
    message = _message(record)
    value = _FRAMES[type(message)] + codec.encode(message, 0)
    check_size(record, len(value))
    return value


def decode(value: Buffer) -> Decoded:
    """The record with this value; ProtocolViolation if it is malformed."""
    kind, position = _frame(value)
    cls = _CLASSES.get(kind)
    return Foreign(kind) if cls is None else _plain(codec.decode(cls, 0, memoryview(value)[position:]))


def _frame(value: Buffer) -> tuple[int, int]:
    """The type of a record, and where its message begins."""
    try:
        frame_version, position = read_uvarint(value, 0)
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise ProtocolViolation("malformed metadata record: shorter than its frame") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolViolation(f"malformed metadata record: frame version {frame_version} is not known")
    if version and kind in _CLASSES:
        raise ProtocolViolation(f"malformed metadata record: version {version} of type {kind} is not known")
    return kind, position


def check_size(record: Decoded, size: int) -> None:
    """RecordTooLarge if the log refuses a list of so many changes, or so many bytes."""
    if not isinstance(record, TreeChanges | SessionOpened):
        return
    if (changes := len(record.changes)) > MOST_CHANGES:
        raise RecordTooLarge(f"{changes} changes of the metadata at once; at most {MOST_CHANGES} are possible")
    if size > MOST_BYTES:
        raise RecordTooLarge(f"{size} bytes of metadata changes at once; at most {MOST_BYTES} are possible")


def _message(record: Any) -> Any:
    match record:
        case TreeChanges(session, number, changes):
            return messages.TreeChangesRecord(session=session, number=number, changes=_encoded(changes))
        case SessionOpened(broker_id, incarnation, log_dirs, replaces, changes):
            return messages.SessionOpenedRecord(
                broker_id=broker_id,
                incarnation_id=incarnation,
                log_dirs=list(log_dirs),
                replaces=replaces,
                changes=_encoded(changes),
            )
        case SessionEnded(session, reason):
            return messages.SessionEndedRecord(session=session, reason=reason)
        case StoredNode(path, node):
            return messages.TreeNodeRecord(
                path=path, data=node.data, version=node.version, created=node.created, session=node.session
            )
        case LastSession(broker_id, session):
            return messages.LastSessionRecord(broker_id=broker_id, session=session)
        case OpenSession(session, broker_id, incarnation, log_dirs, number):
            return messages.SessionRecord(
                session=session,
                broker_id=broker_id,
                incarnation_id=incarnation,
                log_dirs=list(log_dirs),
                number=number,
            )
    return record


def _plain(message: Any) -> Decoded:
    match message:
        case messages.TreeChangesRecord():
            return TreeChanges(message.session, message.number, _decoded(message.changes))
        case messages.SessionOpenedRecord():
            changes = _decoded(message.changes)
            log_dirs = tuple(message.log_dirs)
            return SessionOpened(message.broker_id, message.incarnation_id, log_dirs, message.replaces, changes)
        case messages.SessionEndedRecord():
            return SessionEnded(message.session, message.reason)
        case messages.TreeNodeRecord():
            return StoredNode(message.path, Node(message.data, message.version, message.created, message.session))
        case messages.SessionRecord():
            log_dirs = tuple(message.log_dirs)
            return OpenSession(message.session, message.broker_id, message.incarnation_id, log_dirs, message.number)
        case messages.LastSessionRecord():
            return LastSession(message.broker_id, message.session)
    found: FeatureLevelRecord | UserScramCredentialRecord = message
    return found


_CREATE, _CREATE_EPHEMERAL, _WRITE, _DELETE, _CHECK = range(5)


def _encoded(changes: Sequence[Change]) -> list[messages.TreeChange]:
    return [_encoded_change(change) for change in changes]


def _encoded_change(change: Change) -> messages.TreeChange:
    match change:
        case Create(path, data, ephemeral):
            return messages.TreeChange(kind=_CREATE_EPHEMERAL if ephemeral else _CREATE, path=path, data=data)
        case Write(path, data, version):
            return messages.TreeChange(kind=_WRITE, path=path, data=data, expected_version=version)
        case Delete(path, version):
            return messages.TreeChange(kind=_DELETE, path=path, expected_version=version)
        case Check(path, version):
            return messages.TreeChange(kind=_CHECK, path=path, expected_version=version)


def _decoded(changes: Sequence[messages.TreeChange]) -> tuple[Change, ...]:
    return tuple([_decoded_change(change) for change in changes])


def _decoded_change(change: messages.TreeChange) -> Change:
    match change.kind:
        case 0 | 1:
            return Create(change.path, change.data, change.kind == _CREATE_EPHEMERAL)
        case 2:
            return Write(change.path, change.data, change.expected_version)
        case 3:
            return Delete(change.path, change.expected_version)
        case 4:
            return Check(change.path, change.expected_version)
    raise ProtocolViolation(f"malformed metadata record: kind of change {change.kind} is not known")


_TYPES: tuple[type[Any], ...] = (
    messages.TreeChangesRecord,
    messages.SessionOpenedRecord,
    messages.SessionEndedRecord,
    messages.TreeNodeRecord,
    messages.SessionRecord,
    messages.LastSessionRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
_CLASSES = {key_of(cls): cls for cls in _TYPES}
_FRAMES = {cls: uvarint(FRAME_VERSION) + uvarint(key_of(cls)) + uvarint(0) for cls in _TYPES}
