"""A raw connection that speaks Kafka's protocol with our codec, and requests built from plain values by API name."""

import socket
import struct
from typing import Any

from tidelog.api.registry import APIS
from tidelog.wire import codec
from tidelog.wire.message import fields, versions_of
from tidelog.wire.messages import SCHEMAS

KEYS = {api.name: key for key, api in APIS.items()}

CLOSED = "the connection is closed"
SILENT = "no answer"

ANSWER_S = 60.0
"""Only who must not be answered is waited for less."""


class Connection:
    """One socket; requests may be pipelined: `send` several, then `receive` as often."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self.sent: list[tuple[int, int]] = []
        self._number = 0

    def close(self) -> None:
        self.socket.close()

    def send(self, api: str, version: int, **values: Any) -> None:
        self._number += 1
        key = KEYS[api]
        request = build(SCHEMAS[key].request, version, values)
        self.socket.sendall(b"".join(map(bytes, codec.encode_request(key, version, self._number, "twin", request))))
        self.sent.append((key, version))

    def receive(self, *, within_s: float = ANSWER_S) -> Any:
        """The next answer decoded, or CLOSED, or SILENT."""
        key, version = self.sent.pop(0)
        frame = self.frame(within_s=within_s)
        return frame if isinstance(frame, str) else codec.decode_response(key, version, frame)[1]

    def frame(self, *, within_s: float = ANSWER_S) -> bytes | str:
        """The next answer's bytes without their length, or CLOSED, or SILENT."""
        self.socket.settimeout(within_s)
        try:
            (size,) = struct.unpack(">i", self._exactly(4))
            return self._exactly(size)
        except TimeoutError:
            return SILENT
        except (ConnectionError, EOFError):
            return CLOSED

    def unanswered(self, api: str, version: int, **values: Any) -> Any:
        """SILENT where the request after this one is the next that is answered."""
        self.send(api, version, **values)
        self.send("Metadata", 12, topics=[])
        frame = self.frame()
        answered, self.sent = self.sent, []
        if not isinstance(frame, str) and int.from_bytes(frame[:4]) == self._number:
            return SILENT
        return frame if isinstance(frame, str) else codec.decode_response(*answered[0], frame)[1]

    def ask(self, api: str, version: int, **values: Any) -> Any:
        self.send(api, version, **values)
        return self.receive()

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def build(cls: type[Any], version: int, values: dict[str, Any]) -> Any:
    """A message from plain values: structs are dicts, arrays lists. Fields that the version lacks are left out, so
    that one description serves every version; a name that no version has is a mistake."""
    declared = {field.name: field for field in fields(cls)}
    assert set(values) <= set(declared), f"{cls.__name__} has no {set(values) - set(declared)}"
    present = {name: value for name, value in values.items() if version in versions_of(declared[name].versions)}
    return cls(**{name: _value(declared[name].element, version, value) for name, value in present.items()})


def _value(element: Any, version: int, value: Any) -> Any:
    if not isinstance(element, type) or value is None:
        return value
    if isinstance(value, list):
        return [build(element, version, each) for each in value]
    return build(element, version, value)
