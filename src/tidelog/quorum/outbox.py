"""What a replica of the quorum wants done: the one gate that every message waits at, and which requests are under way.

While a change of epoch, vote or leader is not durable, nothing is sent. A vote that was sent before its file could be
forgotten in a power loss, and be given to another candidate.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.effects import Effect, Event, PeerRequest, Replace, Reply, Sync
from tidelog.ports import File

VOTES = "quorum"
FETCHES = "quorum-fetch"
"""The owners of requests: each has its own connection, so that no vote waits behind a long poll."""


class Asked(NamedTuple):
    """A request under way. `about` is what it is for: a second one of that kind waits for its answer."""

    target: int
    request: Any
    about: tuple[Any, ...]


class Outbox:
    """Effects in order. `path` is that of the state's file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._out: list[Effect] = []
        self._held: list[Effect] = []
        self._token = 0
        self._content = b""
        self._writing: tuple[int, bytes] | None = None
        self._written: bytes | None = None
        self._asked: dict[int, Asked] = {}
        self._about: set[tuple[Any, ...]] = set()

    def __repr__(self) -> str:
        return f"Outbox({len(self._out)} effects, {len(self._held)} held, {len(self._asked)} requests)"

    @property
    def is_saved(self) -> bool:
        """Whether the state is durable."""
        return self._written == self._content

    @property
    def last_token(self) -> int:
        """The highest token so far; later requests have higher ones."""
        return self._token

    def drain(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def event(self, kind: str, **fields: Any) -> None:
        self._out.append(Event(kind, fields))

    def sync(self, files: Sequence[File]) -> int:
        token = self._next()
        self._out.append(Sync(token, files))
        return token

    def replace(self, path: str, content: bytes) -> int:
        """Another file, which nothing waits for."""
        token = self._next()
        self._out.append(Replace(token, path, content))
        return token

    def save(self, content: bytes) -> None:
        """The state changed: everything that is sent from now on waits until this is durable."""
        self._content = content
        if self._writing is None:
            self._write()

    def _write(self) -> None:
        self._writing = (self._next(), self._content)
        self._out.append(Replace(self._writing[0], self._path, self._content))

    def saved(self, token: int) -> bool:
        """The file was written; returns whether the state is durable now. False for other tokens, too."""
        if self._writing is None or self._writing[0] != token:
            return False
        self._written, self._writing = self._writing[1], None
        if not self.is_saved:
            self._write()
            return False
        self._out += self._held
        self._held = []
        return True

    def _send(self, effect: Effect) -> None:
        (self._out if self.is_saved else self._held).append(effect)

    def reply(self, token: int, response: Any) -> None:
        self._send(Reply(token, response))

    def ask(self, target: int, request: Any, owner: str, about: tuple[Any, ...]) -> None:
        """Send the request, unless one about the same is under way."""
        if about in self._about:
            return
        token = self._next()
        self._asked[token] = Asked(target, request, about)
        self._about.add(about)
        self._send(PeerRequest(target, request, owner, token))

    def answered(self, token: int) -> Asked:
        asked = self._asked.pop(token)
        self._about.discard(asked.about)
        return asked

    def _next(self) -> int:
        self._token += 1
        return self._token
