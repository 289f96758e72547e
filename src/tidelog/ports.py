"""What the world must provide: a disk and certificates that are called, and a metadata store that answers later.

`shell` provides these on files, SQLite and ZooKeeper; `sim` provides them in memory, under a seed, with faults.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open, unbuffered file. Every method raises `DiskFailed` where the operating system refuses."""

    path: str

    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """At most `length` bytes at `position`; fewer only at the end of the file."""

    def write(self, position: int, data: Buffer) -> None:
        """All of `data` at `position` into the page cache; short writes are continued. `DiskFull` may leave a part."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until data and size are durable. On the event loop only at start and stop; else use `effects.Sync`."""

    def close(self) -> None:
        """Let the descriptor go once no `FileSlice` needs it; the path may be reopened at once."""


class Disk(Protocol):
    """The folders of one broker, called synchronously: the page cache answers in microseconds.

    Paths are absolute strings joined with '/'. A missing path raises FileNotFoundError, an existing one
    FileExistsError, anything else that the operating system refuses `DiskFailed`. Where a new file, folder or content
    finds no room that is `DiskFull`, which leaves no file of `replace` behind.
    """

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """Names in the folder, sorted."""

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        """Create the folder and its parents; an existing one is fine. `durable=False`: its name lasts once its parent
        is synced."""

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Atomic: temporary file, fsync, rename, fsync of the folder. `durable=False` leaves out both fsyncs."""

    def rename(self, source: str, target: str) -> None:
        """Atomic within a folder; the folder is fsynced when it is next synced."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all it holds; a missing path is fine."""

    def sync_folder(self, path: str) -> None: ...

    def sync_soon(self, folder: str) -> None:
        """A hint that many syncs of files below `folder` follow: what can be made durable in one go may be. Nothing
        is durable by this alone."""

    def usage(self, folder: str) -> tuple[int, int]:
        """(total bytes, usable bytes) of the file system that holds the folder."""


# The metadata store: a small tree with versions, ephemeral nodes, an atomic multi-operation, and sessions.

ANY_VERSION = -1


class Certificates(Protocol):
    """The certificates and stores of one broker's TLS listeners; brokers without any do without this port."""

    def expiries(self) -> Mapping[str, int]:
        """When the certificates expire that the listeners show, in wall-clock milliseconds."""

    def problem(self, options: Mapping[str, str]) -> str | None:
        """Why these dynamic options of the broker cannot be applied; None if they can. Reads the store files."""


class Create(NamedTuple):
    """Fails with a conflict where the node exists or its parent does not (parents are never made implicitly,
    except that the store holds the fixed skeleton `controller.tree.SKELETON` from its first start)."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class Write(NamedTuple):
    """Fails with a conflict where the node is missing or, unless ANY_VERSION, has another version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Fails with a conflict where the node is missing, has children, or has another version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails with a conflict unless the node exists with this version."""

    path: str
    version: int


class Read(NamedTuple):
    path: str


class Children(NamedTuple):
    path: str


class Watch(NamedTuple):
    """From now on, until the session ends, every change at `path` or below it comes as `store_event(path)`."""

    path: str


Change = Create | Write | Delete | Check
Query = Read | Children | Watch
Operation = Change | Query


class Node(NamedTuple):
    """What a node of the tree holds. `version` counts writes from 0; `created` is the store-wide creation number
    (ZooKeeper's czxid), which makes broker epochs; `session` is 0 unless the node is ephemeral."""

    data: bytes
    version: int
    created: int
    session: int = 0


Outcome = Literal["ok", "conflict", "unknown"]


class StoreResult(NamedTuple):
    """The answer to one list of operations, which is either all changes (atomic: all or none) or all queries.

    `values` has one entry an operation: Create and Write → the `Node` as written; Delete and Check → None;
    Read → `Node` or None where missing; Children → sorted names, or None where missing; Watch → None.
    `conflict`: nothing was changed, and `failed` is the index of the first operation that refused.
    `unknown`: it may or may not have happened (session or connection lost on the way); read again before going on.
    """

    outcome: Outcome
    values: Sequence["Node | Sequence[str] | None"] = ()
    failed: int = -1


class MetadataStore(Protocol):
    """One session with the tree. A world calls `apply` in order, off the event loop, and hands the result to the node
    as `store_result`; watched paths come as `store_event`, the end of the session as `session_lost`."""

    session: int

    def apply(self, operations: Sequence[Operation]) -> StoreResult: ...

    def events(self) -> Sequence[str]:
        """Watched paths changed since the last call (own changes included), each at most once."""

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
