"""`committed-state`: how much of the log was committed and synced here. It proves what must still be there.

A replica that finds damage in its log cannot tell rot from the tail that a power loss tore, unless it knows what was
synced. Everything below a high watermark is committed and is never cut, so a replica that had synced it can say so for
good: the file needs no care when the log is cut, and no fsync in the path of records. It is written now and then.
The checksum is there because a wrong digit could make records look committed that are not.
"""

import json
from typing import NamedTuple

from tidelog.checksums import crc32c
from tidelog.errors import CorruptLog
from tidelog.ports import Disk

FILE_NAME = "committed-state"
_FIELDS = ("highWatermark", "logBegins")


class CommittedState(NamedTuple):
    """Everything below `high_watermark` was committed and synced. At `log_begins` the log started over, after a
    snapshot: segments that begin below are what was left of the log before."""

    high_watermark: int = 0
    log_begins: int = 0

    @property
    def starts_over(self) -> bool:
        """The log is about to start over at `log_begins`: nothing that it has counts, whatever its offsets are."""
        return self.log_begins > self.high_watermark


def format_committed(state: CommittedState) -> bytes:
    fields = dict(zip(_FIELDS, state, strict=True))
    return json.dumps(fields | {"crc32c": _checksum(state), "data_version": 0}, separators=(",", ":")).encode()


def parse_committed(content: bytes, path: str) -> CommittedState:
    """CorruptLog if that is not the content of such a file. It is replaced durably, so it is never torn."""
    try:
        fields = json.loads(content)
        state = CommittedState(*[fields[name] for name in _FIELDS])
        is_whole = fields["crc32c"] == _checksum(state) and fields["data_version"] == 0
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise CorruptLog(f"{path}: damaged; remove this voter from the quorum, format its folder and add it again")
    return state


def _checksum(state: CommittedState) -> str:
    return f"{crc32c(' '.join(map(str, state)).encode()):08x}"


def load_committed(disk: Disk, folder: str) -> CommittedState:
    """What the replica in this folder knew; nothing if it never had a file."""
    path = f"{folder}/{FILE_NAME}"
    try:
        return parse_committed(disk.read(path), path)
    except FileNotFoundError:
        return CommittedState()
