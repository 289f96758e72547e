"""`ports.MetadataStore` over ZooKeeper: many machines. All stores of one tree name the same servers and chroot.

- A list of changes is one multi, a list of queries one multi-read at one point in time.
- A connection that ends during an operation leaves its outcome `unknown`. The session may survive: kazoo looks for
  another server, watches are set again there, all watched paths count as changed, and the first read waits until that
  server has caught up with the leader, so that it sees the outcome of the operation.
- A store without contact for a whole session timeout is `silent`: others may have ended the session by then and elected
  another controller, so this process must not act as one. Only the servers know whether the session is over; `lost` is
  set when they report it.

`apply`, `events` and `close` may be called from any thread, one call of each at a time.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

from tidelog.controller.tree import SKELETON
from tidelog.ports import Change, Children, Create, Node, Operation, Query, Read, StoreResult, Watch, Write
from tidelog.shell.store import zookeeper_session_file
from tidelog.shell.store.zookeeper_client import UNANSWERED, Client, Unreachable
from tidelog.shell.store.zookeeper_security import NO_SECURITY, ZookeeperSecurity
from tidelog.shell.store.zookeeper_wire import (
    CONFLICTS,
    NOT_TRIED,
    ROLLED_BACK,
    AddWatch,
    Failed,
    Multi,
    MultiRead,
    sync,
    znode_path,
)

SESSION_TIMEOUT_MS = 18_000
RECONNECT_WAIT_S = 1.0
"""How long an operation waits for a connection before its outcome is unknown; this also paces callers that retry."""

UNKNOWN = StoreResult("unknown")

Value = Node | Sequence[str] | None


class StoreRefused(Exception):
    """A store in ZooKeeper cannot be opened; the message says why."""


class ZookeeperStore:
    """One session with the tree below `chroot` ("" or "/a/b") at `hosts` (`host:port,…`).

    `create`: create a missing chroot, as Kafka's brokers do; else a missing chroot, or one without a tree, is refused.
    `folder`: where the session file is kept; the session that a dead process left there is ended first. `notify` and
    `is_alive` are those of `SqliteStore`.
    """

    def __init__(
        self,
        hosts: str,
        chroot: str = "",
        *,
        security: ZookeeperSecurity = NO_SECURITY,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connection_timeout_ms: int | None = None,
        skeleton: Iterable[str] = SKELETON,
        create: bool = True,
        folder: Path | None = None,
        notify: Callable[[], None] = lambda: None,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self.lost = self.closed = self.silent = False
        self.address = f"zookeeper://{hosts}{chroot}"
        self._root = chroot
        self._restricts = security.restricts
        self._notify = notify
        self._lock = Lock()
        self._is_connected = Event()
        self._timer: Timer | None = None
        self._started = False
        self._reconnected = False  # a new connection has no watches yet
        self._must_sync = False  # the next read must see the outcome of an unanswered operation
        self._watched: dict[str, None] = {}
        self._pending: dict[str, None] = {}  # watched paths that changed, in order, each once
        self._client = Client(
            hosts,
            security,
            term_ms=session_timeout_ms,
            changed=self._changed,
            connected=self._connected,
            suspended=self._suspended,
            lost=self._ended,
            is_alive=is_alive,
        )
        self._folder = folder
        if folder is not None:
            zookeeper_session_file.end_session(folder, security)
        within_ms = connection_timeout_ms or session_timeout_ms
        until = time.monotonic() + within_ms / 1000
        try:
            self._client.start(within_ms / 1000)
        except Unreachable as unreachable:
            reason = f": {unreachable}" if str(unreachable) else ""
            raise StoreRefused(f"ZooKeeper cannot be reached at {hosts} within {within_ms} ms{reason}.") from None
        try:
            self._prepare(tuple(skeleton), create=create, until=until)
        except BaseException:
            self.close()
            raise
        self._started = True
        self.session: int = self._client.identity[0]
        if folder is not None:
            zookeeper_session_file.write(folder, hosts, self._client.identity)

    def __repr__(self) -> str:
        how = "lost" if self.lost else "silent" if self.silent else "connected" if self._client.connected else "waiting"
        return f"ZookeeperStore({self.address}, session {self._client.identity[0] or 0:#x}, {how})"

    @property
    def identity(self) -> tuple[int, bytes]:
        """The session and its password, with which another client can take over or end it."""
        return self._client.identity

    @property
    def term_ms(self) -> int:
        """The session timeout that the servers granted."""
        return round(self._client.term_s * 1000)

    # `ports.MetadataStore`

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        if not self._is_connected.wait(RECONNECT_WAIT_S) or self.closed or self.lost:
            return UNKNOWN
        try:
            if operations and isinstance(operations[0], Query):
                return self._answer(operations)
            return self._change([each for each in operations if not isinstance(each, Query)])
        except UNANSWERED:
            self._must_sync = True
            return UNKNOWN

    def events(self) -> Sequence[str]:
        if self.closed or self.lost:
            return ()
        if self._reconnected:
            self._watch_again()
        with self._lock:
            changed, self._pending = self._pending, {}
        return tuple(changed)

    def close(self) -> None:
        """End the session. Unreachable servers are not waited for: they end it after its timeout."""
        self.closed = True
        self._is_connected.set()
        self._set_timer(None)
        if self._folder is not None and (self._client.connected or self.lost):
            zookeeper_session_file.remove(self._folder)
        self._client.close()

    # Operations

    def _answer(self, queries: Sequence[Operation]) -> StoreResult:
        """Answer queries. All requests are sent before the first answer is awaited; one connection keeps their
        order."""
        must_sync, self._must_sync = self._must_sync, False
        waited = [self._client.send(sync(self._root))] if must_sync else []
        for query in queries:
            if isinstance(query, Watch) and query.path not in self._watched:
                with self._lock:
                    self._watched[query.path] = None
                waited.append(self._client.send(AddWatch(znode_path(self._root, query.path))))
        reads = [query for query in queries if isinstance(query, Read | Children)]
        read = self._client.send(MultiRead(reads, self._root)) if reads else None
        try:
            for each in waited:
                self._get(each)
            answers = iter(self._get(read) if read else ())
        except BaseException:
            self._must_sync = must_sync
            raise
        return StoreResult(
            "ok", tuple(None if isinstance(query, Watch) else _value(next(answers)) for query in queries)
        )

    def _change(self, changes: Sequence[Change]) -> StoreResult:
        if not changes:
            return StoreResult("ok")
        answers = self._get(self._client.send(Multi(changes, self._root, restricts=self._restricts)))
        for index, answer in enumerate(answers):
            if isinstance(answer, Failed) and answer.code not in (ROLLED_BACK, NOT_TRIED):
                return StoreResult("conflict", failed=index) if answer.code in CONFLICTS else UNKNOWN
        return StoreResult("ok", tuple(_written(*pair) for pair in zip(changes, answers, strict=True)))

    def _get(self, result: Any) -> Any:
        """The answer; kazoo gives up a silent connection before the timeout is over."""
        return result.get(timeout=self._client.term_s)

    def _watch_again(self) -> None:
        """Set all watches again on a new connection, and mark them as changed: changes in between were not reported."""
        self._reconnected = False
        with self._lock:
            watched = list(self._watched)
        try:
            for each in [self._client.send(AddWatch(znode_path(self._root, path))) for path in watched]:
                self._get(each)
        except UNANSWERED:
            return  # repeated on the next connection
        with self._lock:
            self._pending.update(dict.fromkeys(watched))

    # Opening the tree

    def _prepare(self, skeleton: Sequence[str], *, create: bool, until: float) -> None:
        """Find the tree, or create what is missing. If the connection ends meanwhile, retry on the next one, until
        `until` (monotonic seconds)."""
        while True:
            try:
                if create:
                    self._make_tree(skeleton)
                else:
                    self._check_there(skeleton)
            except UNANSWERED as error:
                left = until - time.monotonic()
                if left <= 0 or not self._is_connected.wait(left) or self.lost:
                    reason = str(error) or type(error).__name__
                    raise StoreRefused(f"ZooKeeper at {self.address} does not serve: {reason}.") from None
            else:
                return

    def _make_tree(self, skeleton: Sequence[str]) -> None:
        parts = self._root.split("/")[1:]
        self._make_missing(["/" + "/".join(parts[: count + 1]) for count in range(len(parts))], "")
        self._make_missing(skeleton, self._root)

    def _check_there(self, skeleton: Sequence[str]) -> None:
        root, *nodes = self._get(self._client.send(MultiRead([Read(path) for path in ("/", *skeleton)], self._root)))
        if isinstance(root, Failed):
            raise StoreRefused(f"ZooKeeper has no node {self._root}, the chroot of {self.address}.")
        if all(isinstance(node, Failed) for node in nodes):
            raise StoreRefused(f"There is no cluster at {self.address}.")

    def _make_missing(self, paths: Sequence[str], root: str) -> None:
        """Create missing nodes one by one: another broker may be doing the same."""
        if not paths:
            return
        found = self._get(self._client.send(MultiRead([Read(path) for path in paths], root)))
        missing = [path for path, node in zip(paths, found, strict=True) if isinstance(node, Failed)]
        for path in missing:
            (made,) = self._get(self._client.send(Multi([Create(path)], root, restricts=self._restricts)))
            if isinstance(made, Failed) and made.code not in CONFLICTS:
                raise StoreRefused(f"ZooKeeper refuses to create {znode_path(root, path)} (error {made.code}).")

    # Called on kazoo's threads

    def _changed(self, path: str) -> None:
        path = path[len(self._root) :] or "/"
        with self._lock:
            above = [each for each in self._watched if each in ("/", path) or path.startswith(each + "/")]
            self._pending.update(dict.fromkeys(above))
        if above:
            self._notify()

    def _connected(self) -> None:
        self._set_timer(None)
        with self._lock:
            self.silent = False
            self._reconnected = self._must_sync = self._started
            self._is_connected.set()
        self._notify()

    def _suspended(self) -> None:
        if self.closed:
            return
        self._is_connected.clear()
        timer = Timer(self._client.silent_in_s, self._fall_silent)
        timer.daemon = True
        self._set_timer(timer)
        timer.start()

    def _fall_silent(self) -> None:
        """Become silent, unless the servers were reached while the timer fired: nothing would reset it."""
        with self._lock:
            self.silent = not self._is_connected.is_set()
        self._notify()

    def _ended(self) -> None:
        self._set_timer(None)
        self.lost = not self.closed
        self._is_connected.set()
        self._notify()

    def _set_timer(self, timer: Timer | None) -> None:
        old, self._timer = self._timer, timer
        if old is not None:
            old.cancel()


def _value(answer: Any) -> Value:
    if isinstance(answer, Failed):
        return None
    if isinstance(answer, list):
        return tuple(sorted(answer))
    content, stat = answer
    return Node(content or b"", stat.version, stat.czxid, stat.ephemeralOwner)


def _written(change: Change, stat: Any) -> Value:
    if isinstance(change, Create | Write):
        return Node(bytes(change.data), stat.version, stat.czxid, stat.ephemeralOwner)
    return None
