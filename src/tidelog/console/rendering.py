"""Records as JSON for the page, and as lines of JSON or CSV for a file. Their content is never interpreted."""

import csv
import io
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.cli.internal_records import GROUP_TOPIC as GROUP_FORMATS
from tidelog.cli.internal_records import TRANSACTION_TOPIC as TRANSACTION_FORMATS
from tidelog.cli.internal_records import UnreadableRecord, record_as_json
from tidelog.console.reading import Read
from tidelog.errors import ApiError
from tidelog.model import GROUP_TOPIC, TRANSACTION_TOPIC
from tidelog.wire.compression import Compression
from tidelog.wire.record_format import Header, Record
from tidelog.wire.records import read_marker

Json = dict[str, Any]
KEY_CHARS, VALUE_CHARS, HEADER_CHARS, MOST_HEADERS = 200, 600, 120, 12
WHOLE_CHARS = 256 * 1024
"""What is shown of one field of an opened record, and of all its headers together; the rest can be exported."""
HEADER_COST = 16
"""What a header counts besides its name and value, so that empty ones are limited, too."""
DECODED_BYTES = 16 * 1024
"""A larger record of an internal topic is decoded only when it is opened."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so is a formula to a spreadsheet."""
FORMATS = {GROUP_TOPIC: GROUP_FORMATS, TRANSACTION_TOPIC: TRANSACTION_FORMATS}


def field(data: bytes | None, most: int) -> Json | None:
    """A key, value or header's value: its beginning as text, or as base64 if it is not UTF-8; None for null."""
    if data is None:
        return None
    start = bytes(data[: 4 * most])
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3 or len(data) <= len(start):
            return {"size": len(data), "base64": b64encode(data[:most]).decode(), "cut": len(data) > most}
        text = start[: error.start].decode()
    return {"size": len(data), "text": text[:most], "cut": len(text) > most or len(start) < len(data)}


def row(topic: str, read: Read, *, whole: bool = False) -> Json:
    """One record as the page lists it, or opens it."""
    batch, record = read.batch, read.record
    key_chars, value_chars = (WHOLE_CHARS, WHOLE_CHARS) if whole else (KEY_CHARS, VALUE_CHARS)
    headers = _headers(record.headers, WHOLE_CHARS) if whole else _headers(record.headers[:MOST_HEADERS], HEADER_CHARS)
    found: Json = {
        "partition": read.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": field(record.key, key_chars),
        "value": field(record.value, value_chars),
        "headers": headers,
        "more_headers": len(record.headers) - len(headers),
    }
    if batch.is_control:
        found["control"] = _control(record)
    decoded = _decoded(topic, record) if whole or len(record.value or b"") <= DECODED_BYTES else None
    if decoded is not None:
        found["decoded"] = decoded
    if whole:
        found["batch"] = {
            "epoch": batch.leader_epoch,
            "timestamp_type": batch.timestamp_type,
            "compression": _compression(batch.compression),
            "transactional": batch.is_transactional,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "base_offset": batch.base_offset,
            "records": batch.count,
            "bytes": batch.length,
        }
    return found


def _headers(headers: Sequence[Header], most: int) -> list[Any]:
    """The headers, of each name and value the beginning, until `WHOLE_CHARS` are spent: there may be a million."""
    found: list[Any] = []
    left = WHOLE_CHARS
    for name, value in headers:
        shown = field(value, min(most, left))
        found.append([name[: min(most, left)], shown])
        left -= min(len(name), most) + (min(shown["size"], most) if shown else 0) + HEADER_COST
        if left <= 0:
            break
    return found


def _compression(code: int) -> str:
    try:
        return Compression(code).name.lower()
    except ValueError:
        return str(code)


def _control(record: Record) -> str:
    try:
        marker = read_marker(record)
    except ApiError:
        marker = None
    if marker is None:
        return "control"
    return "commit" if marker.committed else "abort"


def _decoded(topic: str, record: Record) -> Json | None:
    """What a record of Kafka's internal topics says."""
    formats = FORMATS.get(topic)
    if formats is None or record.key is None:
        return None
    try:
        return record_as_json(formats, record.key, record.value, tuple(formats))
    except UnreadableRecord:
        return None


def json_line(topic: str, read: Read) -> bytes:
    """A record with all that is in it; bytes that are not UTF-8 are `{"base64": …}`."""
    record = read.record
    found = {
        "topic": topic,
        "partition": read.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _exact(record.key),
        "value": _exact(record.value),
        "headers": [[name, _exact(value)] for name, value in record.headers],
    }
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"


def _exact(data: bytes | None) -> str | Mapping[str, str] | None:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


CSV_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")


def csv_line(read: Read) -> bytes:
    record = read.record
    headers = json.dumps([[name, _exact(value)] for name, value in record.headers], ensure_ascii=False)
    cells = [read.partition, record.offset, record.timestamp, _cell(record.key), _cell(record.value), headers]
    return csv_row(cells)


def csv_row(cells: Sequence[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()


def _cell(data: bytes | None) -> str:
    """Text as it is, but no formula; other bytes as base64."""
    exact = _exact(data)
    if exact is None:
        return ""
    text = exact if isinstance(exact, str) else f"base64:{exact['base64']}"
    return f"'{text}" if text.startswith(FORMULA) else text
