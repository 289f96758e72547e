"""The small text files of a log directory and of a partition's folder: parsing and formatting, without file access.

Every reader raises CorruptLog with the file and the problem if the text contradicts the format. A checkpoint has a
version, a count and that number of lines; a properties file has `name=value` lines.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.checksums import crc32c
from tidelog.errors import CorruptLog
from tidelog.model import TopicPartition, id_bytes, id_text

REPLICATION_OFFSETS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
OLD = ".old"
"""The suffix of the last synced LEADER_EPOCHS file while a newer one is not synced."""
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_CHECKSUM = b"#crc32c="
"""A comment to Kafka."""
_VERSION = "0"
_MAX_NUMBER = 2**63 - 1
_MOST_DIGITS = len(str(_MAX_NUMBER))
NO_BROKER_EPOCH = -1


class MetaProperties(NamedTuple):
    """The owner of a log directory. `directory_id` is the directory's own 16-byte ID, None in files of version 0."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None = None


def format_offsets(offsets: Iterable[tuple[TopicPartition, int]]) -> bytes:
    """An offset checkpoint, with `topic partition offset` on each line."""
    return _checkpoint([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets])


def read_offsets(content: bytes, path: str) -> dict[TopicPartition, int]:
    """Kafka leaves a checkpoint that was never written as an empty file."""
    if not content:
        return {}
    offsets: dict[TopicPartition, int] = {}
    for fields in _entries(content, path, 3):
        topic, partition, offset = fields
        name = TopicPartition(topic, _number(partition, path))
        if name in offsets:
            raise CorruptLog(f"{path}: {name} is there twice")
        offsets[name] = _number(offset, path)
    return offsets


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """`leader-epoch-checkpoint`, with `epoch startOffset` on each line."""
    return _checkpoint([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def read_epochs(content: bytes, path: str) -> list[tuple[int, int]]:
    return [(_number(epoch, path), _number(start, path)) for epoch, start in _entries(content, path, 2)]


def format_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {id_text(topic_id)}".encode()


def read_partition_metadata(content: bytes, path: str) -> bytes:
    """The 16-byte topic ID."""
    fields = dict(_split(line, ":", path) for line in _text(content, path).splitlines() if line.strip())
    if fields.get("version") != _VERSION:
        raise CorruptLog(f"{path}: version {fields.get('version')!r} is not known")
    try:
        return id_bytes(fields["topic_id"])
    except (KeyError, ValueError):
        raise CorruptLog(f"{path}: no topic id") from None


def format_meta_properties(meta: MetaProperties) -> bytes:
    fields = {"version": "1", "cluster.id": meta.cluster_id, "node.id": str(meta.node_id)}
    if meta.directory_id is not None:
        fields["directory.id"] = id_text(meta.directory_id)
    content = "".join(f"{name}={value}\n" for name, value in fields.items()).encode()
    return _checksum_line(content) + b"\n" + content


def read_meta_properties(content: bytes, path: str) -> MetaProperties:
    """Files of Kafka have no checksum, and an operator who changes a file may remove it."""
    first, _, rest = content.partition(b"\n")
    if first.startswith(_CHECKSUM) and first != _checksum_line(rest):
        raise CorruptLog(f"{path}: damaged, its content is not that of its checksum; if you changed it, remove line 1")
    lines = [line.strip() for line in _text(content, path).splitlines()]
    fields = dict(_split(line, "=", path) for line in lines if line and line[0] not in "#!")
    version = fields.get("version")
    if version not in ("0", "1"):
        raise CorruptLog(f"{path}: version {version!r} is not known")
    try:
        node_id = _number(fields["node.id" if version == "1" else "broker.id"], path)
        directory = fields.get("directory.id")
        return MetaProperties(fields["cluster.id"], node_id, id_bytes(directory) if directory else None)
    except KeyError as missing:
        raise CorruptLog(f"{path}: no {missing.args[0]}") from None
    except ValueError as error:
        raise CorruptLog(f"{path}: {error}") from None


def _checksum_line(content: bytes) -> bytes:
    return _CHECKSUM + b"%08x" % crc32c(content)


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(content: bytes) -> int:
    """The broker epoch of the process that stopped cleanly; NO_BROKER_EPOCH if the file does not have it, because the
    presence of the file alone means that the logs are whole."""
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
    return epoch if isinstance(epoch, int) else NO_BROKER_EPOCH


def _checkpoint(entries: list[str]) -> bytes:
    return "\n".join((_VERSION, str(len(entries)), *entries, "")).encode()


def _entries(content: bytes, path: str, width: int) -> list[list[str]]:
    if not content.endswith(b"\n"):
        raise CorruptLog(f"{path}: the last line has no end")  # its last number may lack digits
    lines = _text(content, path).splitlines()
    if not lines or lines[0].strip() != _VERSION:
        raise CorruptLog(f"{path}: version {lines[0] if lines else ''!r} is not known")
    if len(lines) < 2:
        raise CorruptLog(f"{path}: no count")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if _number(lines[1], path) != len(entries):
        raise CorruptLog(f"{path}: {lines[1]} entries announced, {len(entries)} found")
    for number, entry in enumerate(entries, 3):
        if len(entry) != width:
            raise CorruptLog(f"{path}: line {number} is malformed: {' '.join(entry)!r}")
    return entries


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CorruptLog(f"{path}: not text") from None


def _split(line: str, separator: str, path: str) -> tuple[str, str]:
    name, found, value = line.partition(separator)
    if not found:
        raise CorruptLog(f"{path}: malformed line {line!r}")
    return name.strip(), value.strip()


def _number(text: str, path: str) -> int:
    """An ID, an epoch, an offset or a count: none is negative, and all fit into 64 bits."""
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) <= _MAX_NUMBER:
        return int(text)
    raise CorruptLog(f"{path}: {text!r} is not a number")
