"""`quorum-state`: what a replica must never forget: the epoch that it is in, and its vote there.

As Kafka writes it. Version 0, before kraft.version 1, has no directory IDs, but repeats who votes. Kafka's file has no
checksum: a digit that rotted could make a replica vote twice in an epoch, and two leaders commit different records. So
there is one more field, which Kafka skips; a file without it, as Kafka writes, is believed.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.checksums import crc32c
from tidelog.errors import CorruptLog
from tidelog.model import NO_ID, NO_LEADER, id_bytes, id_text
from tidelog.ports import Disk
from tidelog.quorum.voters import NOBODY, ReplicaKey, VoterSet

FILE_NAME = "quorum-state"
_CHECKSUM = "crc32c"
_REPAIR = "restore the file, or remove this voter from the quorum, format its folder and add it again"


class ElectionState(NamedTuple):
    """The epoch; who leads in it, as far as this replica knows; whom it voted for."""

    epoch: int = 0
    leader: int = NO_LEADER
    voted: ReplicaKey = NOBODY


def format_state(state: ElectionState, *, directories: bool, cluster_id: str = "", voters: Iterable[int] = ()) -> bytes:
    """The file's content, in version 1 if directory IDs are known, otherwise in version 0."""
    vote = {"leaderId": state.leader, "leaderEpoch": state.epoch, "votedId": state.voted.id}
    content: dict[str, Any]
    if directories:
        content = vote | {"votedDirectoryId": id_text(state.voted.directory), "data_version": 1}
    else:
        current = [{"voterId": voter} for voter in voters]
        content = {"clusterId": cluster_id, **vote, "appliedOffset": 0, "currentVoters": current, "data_version": 0}
    return _text_of(content | {_CHECKSUM: _checksum(content)})


def _text_of(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _checksum(fields: dict[str, Any]) -> str:
    """Of the fields before it."""
    return f"{crc32c(_text_of(fields)):08x}"


def _fields_of(content: bytes) -> dict[str, Any]:
    """ValueError or TypeError if they are not what was written."""
    fields: dict[str, Any] = json.loads(content)
    if not isinstance(fields, dict):
        raise TypeError(fields)
    checksum = fields.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _checksum(fields):
        raise ValueError(checksum)
    return fields


def parse_state(content: bytes, path: str) -> ElectionState:
    """CorruptLog if that is not the content of such a file: without it a replica could vote twice."""
    try:
        fields = _fields_of(content)
        version = fields["data_version"]
        epoch, leader, voted = fields["leaderEpoch"], fields["leaderId"], fields["votedId"]
        directory = id_bytes(fields["votedDirectoryId"]) if version == 1 else NO_ID
    except (ValueError, KeyError, TypeError):
        raise CorruptLog(f"{path}: not a quorum state; {_REPAIR}") from None
    numbers = (epoch, leader, voted, version)
    if not all(type(number) is int for number in numbers) or version not in (0, 1):
        raise CorruptLog(f"{path}: not a quorum state of version 0 or 1; {_REPAIR}")
    if epoch < 0 or leader < -1 or voted < -1:
        raise CorruptLog(f"{path}: epoch {epoch}, leader {leader} and vote {voted} are not valid; {_REPAIR}")
    return ElectionState(epoch, leader, ReplicaKey(voted, directory) if voted >= 0 else NOBODY)


def load_state(disk: Disk, folder: str) -> ElectionState:
    """The state that the replica in this folder had. Raises CorruptLog if its file is not readable."""
    path = f"{folder}/{FILE_NAME}"
    try:
        return parse_state(disk.read(path), path)
    except FileNotFoundError:
        return ElectionState()


def check_voters(disk: Disk, folder: str, voters: VoterSet) -> None:
    """Raises CorruptLog if other static voters are configured than this replica voted with: two majorities might not
    meet."""
    path = f"{folder}/{FILE_NAME}"
    try:
        saved = _fields_of(disk.read(path)).get("currentVoters") or ()
        before = sorted(int(each["voterId"]) for each in saved)
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CorruptLog(f"{path}: not a quorum state; {_REPAIR}") from None
    if before and not voters.directories and before != list(voters.ids):
        raise CorruptLog(
            f"{path}: the voters were {_text(before)}, but controller.quorum.voters has {_text(voters.ids)}; set it "
            "back, and upgrade kraft.version to change controllers"
        )


def _text(voters: Iterable[int]) -> str:
    return ", ".join(map(str, voters))
