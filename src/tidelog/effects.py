"""Effects and conditions, as plain data: what the core asks the world to do, and what a deferred answer waits for.

Nothing here is carried out by the core. A world (`shell` or `sim`) carries an effect out and reports back by an input
of the node that names the effect's token.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.ports import Buffer, File, Operation


class FileSlice(NamedTuple):
    """Bytes of a file that are sent without being read: the slice keeps its file open until it was sent."""

    file: File
    position: int
    length: int


Part = Buffer | FileSlice


class Send(NamedTuple):
    """Write the parts, in order, to the connection; answers keep the order in which they were sent."""

    connection: int
    parts: Sequence[Part]


class Close(NamedTuple):
    connection: int
    reason: str = ""


class Pause(NamedTuple):
    """Stop reading from the connection (`paused`), or go on: too many of its requests wait for their answers."""

    connection: int
    paused: bool


class Retain(NamedTuple):
    """The broker keeps so many bytes of what this connection sent until its request is answered (0: no more)."""

    connection: int
    size: int


class PutBack(NamedTuple):
    """Frames of one `receive` that were not served: give them to `receive` again, before any others, in a later turn in
    which the connection may be read. The views are good only while the effects of the input are carried out."""

    connection: int
    frames: Sequence[memoryview]


class SetFrameLimit(NamedTuple):
    """How long a frame of this connection may be from now on: its client has authenticated."""

    connection: int
    limit: int


class SetConnectionLimits(NamedTuple):
    """How many connections may come from now on: at most `most` at a time and `per_host` from one address (`overrides`
    by address), `rate` a second, and `host_rates` a second from one address (None: from each other one)."""

    most: int
    per_host: int
    overrides: Mapping[str, int]
    rate: float
    host_rates: Mapping[str | None, float]


class SetListenerOptions(NamedTuple):
    """The dynamic options of this broker that concern its listeners (`listener.name.…`), all of them."""

    options: Mapping[str, str]


class SetLogLevels(NamedTuple):
    """Which events become log lines from now on: the lowest level by the first word of their kind, or of `root`."""

    levels: Mapping[str, str]


class FetchKeys(NamedTuple):
    """Fetch the keys that verify access tokens from this URL, which is of the broker's file; answered by
    `keys_fetched`."""

    url: str


class FetchToken(NamedTuple):
    """Fetch the access token with which this broker logs in to others; answered by `token_fetched`."""


class Connect(NamedTuple):
    """Open a connection; the node chose its (negative) number. Answered by `connected` or `connect_failed`. `listener`
    is the one it leads to, by whose options TLS is used."""

    connection: int
    host: str
    port: int
    listener: str = ""


REFUSED = "refused"
"""The reason of `connect_failed` where the host answered, but nobody listens there: that process is gone."""


class Sync(NamedTuple):
    """fsync the files off the loop, in order; answered by `synced(token)` or `disk_failed`."""

    token: int
    files: Sequence[File]


class SyncFolders(NamedTuple):
    """`Disk.sync_folder` for each path off the loop, in order. Then the offsets of `reused` (paths of replicas) are
    taken out of the checkpoints of their log directories. Answered by `synced(token)` or `disk_failed`."""

    token: int
    paths: Sequence[str]
    reused: Sequence[str] = ()


class Stretch(NamedTuple):
    """A part of a log file of `size` bytes: the batches that begin in [start, end). The first one's base offset is
    `expected`, its last one `last`, where that is known (-1: not). `offsets`: the segment contains only those. `gaps`:
    offsets may be missing. `epochs`: the leader epochs, each with its first offset."""

    file: File
    start: int
    end: int
    size: int
    expected: int
    last: int
    offsets: range
    gaps: bool
    epochs: Sequence[tuple[int, int]]


class Examine(NamedTuple):
    """Check off the loop that the batches are what was written; answered by `examined(token, verdict)`, the result of
    `log.examination.examine`, or by `disk_failed`."""

    token: int
    stretch: Stretch


class Compute(NamedTuple):
    """Call a function off the loop that depends on its arguments only; answered by `computed(token, result)`, where an
    ApiError that it raises is the result. Calls of equal `lane` keep their order."""

    token: int
    lane: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def carried_out(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result of a `Compute`."""
    try:
        return function(*arguments)
    except ApiError as error:
        return error


class Replace(NamedTuple):
    """`Disk.replace` off the loop; answered by `synced(token)` or `disk_failed`."""

    token: int
    path: str
    content: bytes


class Remove(NamedTuple):
    """`Disk.remove` off the loop, for deletions that may be long; not answered."""

    path: str


class Store(NamedTuple):
    """Submit operations to the metadata store; answered by `store_result(token, result)`, in order of submission."""

    token: int
    operations: Sequence[Operation]


class Stop(NamedTuple):
    """The node is finished: files are closed, the process may end. `reason` is empty for a requested stop."""

    reason: str = ""


class Event(NamedTuple):
    """Something happened that a log line, a timeline, the lab or a ghost of the simulator wants to know.

    `kind` is a stable dotted name ("partition.leader", "isr.shrink", "log.truncate", …); `fields` are plain values.
    `level`: "debug" is for timelines only, "info" and above are log lines too.
    """

    kind: str
    fields: Mapping[str, Any] = MappingProxyType({})
    level: str = "info"


CONTROLLER = -2
"""The target of a `PeerRequest` to the present controller."""

UNATTENDED = "nobody"
"""The owner of a `PeerRequest` whose answer is ignored."""


class PeerRequest(NamedTuple):
    """Send a request to a broker (or the CONTROLLER) and give the answer to `owner` by `token`.

    `node.peers` carries it out; an answer that cannot come is handed down as None.
    """

    target: int
    request: Any
    owner: str
    token: int


class DropChannels(NamedTuple):
    """The broker's process is gone, or another one has its number: close the channels to it of these owners, by default
    of all. No answer will come, and a host that lost its power refuses nothing. The node carries it out."""

    broker: int
    owners: Collection[str] | None = None


class Reply(NamedTuple):
    """The deferred answer to the request that was handed down with this token."""

    token: int
    response: Any


class Append(NamedTuple):
    """Append a coordinator's record batch to a partition of its topic as leader. The node carries it out at once and
    answers with `appended(token, base_offset)` or `append_failed(token, code)` before anything else."""

    token: int
    partition: TopicPartition
    batch: bytes


Effect = (
    Send
    | Close
    | Pause
    | Retain
    | PutBack
    | SetConnectionLimits
    | SetFrameLimit
    | SetListenerOptions
    | SetLogLevels
    | FetchKeys
    | FetchToken
    | Connect
    | Sync
    | SyncFolders
    | Examine
    | Compute
    | Replace
    | Remove
    | Store
    | Stop
    | Event
    | PeerRequest
    | DropChannels
    | Reply
    | Append
)


# Conditions: what a deferred answer waits for. Each names the leader epoch it was born in, so that a change of leader
# answers every one left behind.


class Committed(NamedTuple):
    """The high watermark reached `offset`."""

    partition: TopicPartition
    epoch: int
    offset: int


class Readable(NamedTuple):
    """The partition is dirty: the waiting request checks again whether there is enough to read."""

    partition: TopicPartition


class Synced(NamedTuple):
    """The log is durable up to `offset`."""

    partition: TopicPartition
    offset: int


class Signal(NamedTuple):
    """The key was signalled."""

    key: tuple[Any, ...]


Condition = Committed | Readable | Synced | Signal


class Deferred(NamedTuple):
    """An answer that is not there yet: `resume(context, *arguments)` is called when every condition of a `Committed`
    or `Synced` kind holds, when any `Readable` or `Signal` does, or at the deadline (monotonic milliseconds). It
    returns a response or another `Deferred`."""

    conditions: Sequence[Condition]
    deadline: int
    resume: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
