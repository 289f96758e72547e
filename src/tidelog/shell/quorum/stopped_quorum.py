"""The metadata of a stopped quorum: read from the log directories of its nodes, and written into those of a new one.

What is read is the most complete metadata log among those of a majority of the voters, as in an election: it has all
that was committed. Directories are not changed by it, because a log is opened as a copy. What is written is a snapshot,
the same in all directories, so that no voter without it can win.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tidelog.config.quorum import QuorumConfig
from tidelog.controller import tree as paths
from tidelog.errors import CorruptLog, DiskFailed
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties
from tidelog.model import Time
from tidelog.node.quorum.local_tree import LocalTree
from tidelog.ports import Change, Delete, Operation, Query, StoreResult
from tidelog.quorum import formatting, snapshots
from tidelog.quorum.election import LogEnd
from tidelog.quorum.formatting import METADATA_FOLDER, InitialVoter
from tidelog.quorum.records import NO_SESSION, SessionEnded, TreeChanges
from tidelog.quorum.replica import Replica, config_of
from tidelog.quorum.snapshots import QuorumState, SnapshotId
from tidelog.quorum.state_file import FILE_NAME, ElectionState, format_state, load_state
from tidelog.quorum.tree import Tree, Watches
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.shell.disk import FolderLocked, OsDisk, lock_folder
from tidelog.shell.log_dir_lock import CannotStart
from tidelog.shell.quorum import quorum_folders
from tidelog.shell.quorum.quorum_setup import voters_of
from tidelog.shell.storage import look, write
from tidelog.shell.store.tree_export import TreeError

START = Time(0, 0)
NEVER_BYTES = 2**63
HOST = "127.0.0.1"


class StoppedNode(NamedTuple):
    """A node by its log directories; `metadata` is the one with the metadata log. `quorum` are its options, if they are
    known, and otherwise it is of a cluster of `tidelog up`. `static` are the controllers, if options fix them."""

    metadata: str
    folders: Sequence[str]
    quorum: QuorumConfig | None = None
    static: Sequence[int] = ()


def node_of(quorum: QuorumConfig, folders: Sequence[str]) -> StoppedNode:
    """The node with these options."""
    metadata = str(Path(quorum.metadata_folder).absolute())
    static = [each.node_id for each in quorum.voters]
    return StoppedNode(metadata, folders if metadata in folders else [*folders, metadata], quorum, static)


def nodes_in(folder: Path) -> list[StoppedNode]:
    """The nodes of the cluster that `tidelog up` ran in this folder; TreeError if there is none."""
    found = sorted(folder.absolute().glob("broker-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    if not found:
        raise TreeError(f"No cluster of `tidelog up` was ever started in {folder}.")
    return [StoppedNode(str(path), [str(path)]) for path in found]


class TreeStore:
    """A tree in memory as a metadata store with one session."""

    session = NO_SESSION

    def __init__(self, content: Tree) -> None:
        self.tree = content
        self._offset = 0

    def __repr__(self) -> str:
        return f"TreeStore({self.tree})"

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        if not operations or isinstance(operations[0], Query):
            return Watches().answer(self.tree, operations)
        self._offset += 1
        changes: list[Change] = [each for each in operations if not isinstance(each, Query)]
        return self.tree.apply(self._offset, TreeChanges(NO_SESSION, 0, changes)).store_result()

    def events(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def locked(nodes: Sequence[StoppedNode]) -> Iterator[None]:
    """Hold the directories that exist; TreeError while a process uses one."""
    with ExitStack() as stack:
        for folder in sorted({folder for node in nodes for folder in node.folders if Path(folder).is_dir()}):
            try:
                stack.callback(lock_folder(folder))
            except FolderLocked:
                raise TreeError(f"Log directory {folder} is used by another process: stop the cluster first.") from None
            except OSError as error:
                raise TreeError(f"Log directory {folder} cannot be used: {error.strerror}.") from None
        yield


# Reading


class _Found(NamedTuple):
    """The replica of one node, whose log ends at `end`."""

    end: LogEnd
    key: ReplicaKey
    voters: VoterSet
    tree: Tree
    cluster_id: str


def read(nodes: Sequence[StoppedNode]) -> Tree:
    """The tree, without what belongs to sessions, and without a controller. TreeError unless most of the voters are
    among the nodes."""
    found = [_replica(node) for node in nodes if Path(node.metadata, METADATA_FOLDER).is_dir()]
    if not found:
        raise TreeError(f"Log directory {nodes[0].metadata} has no metadata log.")
    if len(clusters := {each.cluster_id for each in found}) > 1:
        raise TreeError(f"The log directories belong to different clusters: {', '.join(sorted(clusters))}.")
    best = max(found, key=lambda each: each.end)
    present = {each.key.id for each in found if each.key in best.voters}
    if len(present) < best.voters.majority:
        missing = ", ".join(str(voter) for voter in best.voters.ids if voter not in present)
        raise TreeError(
            f"{len(present)} of {len(best.voters)} controllers may lack what the others committed: copy log "
            f"directories of controllers {missing} here, and name enough of them for a majority with --replica."
        )
    content = best.tree
    for session in list(content.sessions):
        content.apply(0, SessionEnded(session))
    if paths.CONTROLLER in content.nodes:
        TreeStore(content).apply([Delete(paths.CONTROLLER)])
    return content


def _replica(node: StoppedNode) -> _Found:
    identity = look([node.metadata])
    if node.metadata not in identity.formatted:
        raise TreeError(f"Log directory {node.metadata} is not formatted.")
    meta = identity.formatted[node.metadata].meta
    with TemporaryDirectory(prefix="tidelog-") as copy:
        folder = f"{copy}/{METADATA_FOLDER}"
        try:
            shutil.copytree(f"{node.metadata}/{METADATA_FOLDER}", folder)
            static = VoterSet(map(ReplicaKey, node.static), directories=False)
            first = static if node.static else VoterSet.of(voters_of(copy))
            load_state(OsDisk([copy]), folder)
            replica = Replica.open(OsDisk([copy]), folder, first, config_of(), START)
            replica.raise_high_watermark(replica.end)
            content = _applied(replica)
            replica.close()
        except (CorruptLog, CannotStart, DiskFailed, OSError) as error:
            raise TreeError(f"{str(error).replace(copy, node.metadata).rstrip('.')}.") from None
    key = ReplicaKey(meta.node_id, meta.directory_id or b"")
    return _Found(replica.log_end, key, replica.voters.latest, content, meta.cluster_id)


def _applied(replica: Replica) -> Tree:
    local = LocalTree(NEVER_BYTES, 0)
    newest = replica.snapshots.newest
    while local.applied < max(replica.log.log_start_offset, min(newest.end_offset, 1)):
        local.load(replica)
    for _ in local.advance(replica, START):
        pass
    return local.tree


# Writing


def write_new(nodes: Sequence[StoppedNode], content: Tree) -> None:
    """Format the directories of the nodes, as far as they are not, with this tree. One node with options is the only
    voter for now; of a cluster on one machine the first three vote. TreeError, before anything is written, if a
    directory belongs to another cluster or node, or had a metadata log."""
    cluster_id = paths.parse_cluster_id(content.nodes[paths.CLUSTER_ID].data)
    metas = [_identities(node, cluster_id) for node in nodes]
    for node in nodes:
        _check_unused(node.metadata)
    directories = {known[node.metadata].node_id: known[node.metadata] for node, known in zip(nodes, metas, strict=True)}
    state = _state(nodes, directories)
    epoch = max(_controller_epoch(content), 1)
    which = SnapshotId(len(content.nodes) + 1, epoch)
    wall = time.time_ns() // 1_000_000
    batches = list(snapshots.content_of(epoch, content.picture().records(), state, last_timestamp=wall))
    voters = [voter.voter_id for voter in state.voters or ()] or list(directories)
    election = format_state(
        ElectionState(epoch), directories=state.kraft_version > 0, cluster_id=cluster_id, voters=voters
    )
    snapshot = {f"{METADATA_FOLDER}/{which.file_name}": b"".join(batches), f"{METADATA_FOLDER}/{FILE_NAME}": election}
    try:
        for node, known in zip(nodes, metas, strict=True):
            for folder in node.folders:
                # The snapshot comes first: without it, or with it alone, the node does not start.
                identity = {META_PROPERTIES: format_meta_properties(known[folder])}
                write(folder, (snapshot if folder == node.metadata else {}) | identity)
    except (DiskFailed, OSError) as error:
        raise TreeError(f"Log directories cannot be written: {error}.") from None


def _identities(node: StoppedNode, cluster_id: str) -> dict[str, MetaProperties]:
    """Of each directory, as it is or as it will be."""
    found = look(node.folders)
    for folder, reason in found.unreadable.items():
        raise TreeError(f"Log directory {folder} cannot be read: {reason}.")
    number = node.quorum.node_id if node.quorum is not None else int(node.metadata.rpartition("-")[2])
    known: dict[str, MetaProperties] = {}
    for folder in node.folders:
        meta = found.formatted[folder].meta if folder in found.formatted else MetaProperties(cluster_id, number)
        if (meta.cluster_id, meta.node_id) != (cluster_id, number):
            raise TreeError(
                f"Log directory {folder} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
                f"{number} of cluster {cluster_id}."
            )
        known[folder] = meta if meta.directory_id is not None else meta._replace(directory_id=quorum_folders.drawn_id())
    return known


def _check_unused(folder: str) -> None:
    metadata = Path(folder, METADATA_FOLDER)
    names = [path.name for path in metadata.iterdir()] if metadata.is_dir() else []
    has_log = any(path.stat().st_size for path in metadata.glob("*.log"))
    if has_log or FILE_NAME in names or any(each.end_offset for each in snapshots.held(names)):
        raise TreeError(
            f"Log directory {folder} already has a metadata log; if its content was moved elsewhere, remove {metadata}."
        )


def _state(nodes: Sequence[StoppedNode], directories: Mapping[int, MetaProperties]) -> QuorumState:
    """Who votes."""
    (number, meta), *others = directories.items()
    quorum = nodes[0].quorum
    if quorum is None:
        voting = quorum_folders.drawn_voters(directories, dict.fromkeys(directories, HOST))
        found = [voter._replace(directory_id=directories[voter.node_id].directory_id or b"") for voter in voting]
        return QuorumState(1, formatting.voter_records(found, quorum_folders.LISTENER))
    assert not others, "the options of one node"
    if quorum.own is None:
        raise TreeError("Only a controller can be the first node of a quorum: process.roles does not have controller.")
    if quorum.voters:
        if [each.node_id for each in quorum.voters] != [number]:
            raise TreeError(
                "controller.quorum.voters names other controllers, too: set controller.quorum.bootstrap.servers "
                "instead, import into one controller, and add the others to it."
            )
        return QuorumState(0, None)
    host = quorum_folders.reachable_host(quorum.own)
    voter = InitialVoter(number, meta.directory_id or b"", host, quorum.own.port)
    return QuorumState(1, formatting.voter_records([voter], quorum.listener))


def _controller_epoch(content: Tree) -> int:
    node = content.nodes.get(paths.CONTROLLER_EPOCH)
    return paths.parse_controller_epoch(node.data) if node is not None and node.data else 0
