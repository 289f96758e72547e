"""What a node with `process.roles` finds on its disk before it starts as a member of the metadata quorum.

Its log directory must be formatted (`tidelog storage format`): an empty one could be a disk that was replaced, whose
voter must not vote again. Only a quorum of one fixed voter formats itself.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelog.config import listeners
from tidelog.config import quorum as options
from tidelog.config.broker import BrokerConfig
from tidelog.config.quotas import node_name
from tidelog.controller import tree
from tidelog.controller.features import founding
from tidelog.errors import CorruptLog, DiskFailed, InvalidOption
from tidelog.log.checkpoints import MetaProperties
from tidelog.model import Endpoint, id_text
from tidelog.node.quorum.setup import QuorumSetup, controller_endpoint
from tidelog.ports import Create
from tidelog.quorum import snapshots
from tidelog.quorum.formatting import BOOTSTRAP, METADATA_FOLDER
from tidelog.quorum.options import Options
from tidelog.quorum.voters import ReplicaKey, VoterSet, voter_record
from tidelog.security import scram
from tidelog.shell.disk import OsDisk
from tidelog.shell.log_dir_lock import CannotStart
from tidelog.shell.storage import look
from tidelog.wire.messages.cluster.metadata_log import UserScramCredentialRecord, Voter, VoterEndpoint


class QuorumNode:
    """The metadata quorum as the options of this node have it; InvalidOption if they cannot work."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._options = options.quorum_of(config)
        self.folder = str(Path(self._options.metadata_folder).absolute())

    def __repr__(self) -> str:
        return f"QuorumNode({self._options.node_id}, {self.folder})"

    def __str__(self) -> str:
        """Where the metadata is, for people."""
        known = [*(f"{each.host}:{each.port}" for each in self._options.voters)] or [
            f"{each.host}:{each.port}" for each in self._options.bootstrap
        ]
        return f"quorum:{','.join(known)}"

    @property
    def folders(self) -> Sequence[str]:
        """The log directories, and that of the metadata log if it is another one."""
        own = self._config.folders
        return own if self.folder in own else [*own, self.folder]

    @property
    def cluster_id(self) -> str:
        """The cluster that the directory was formatted for; CannotStart if it was not."""
        found = look([self.folder])
        if self.folder in found.unreadable:
            raise CannotStart(f"Log directory {self.folder} cannot be read: {found.unreadable[self.folder]}.")
        if found.formatted:
            return found.formatted[self.folder].meta.cluster_id
        if [each.node_id for each in self._options.voters] == [self._options.node_id]:
            return id_text(os.urandom(16))
        raise CannotStart(
            f"Log directory {self.folder} is not formatted: run `tidelog storage format` with the cluster's ID."
        )

    def setup(self, meta: MetaProperties) -> QuorumSetup:
        """`meta` is that of the metadata log's directory."""
        config = self._config
        voters, endpoints = self._voters()
        users = users_of(self.folder)
        return QuorumSetup(
            meta.cluster_id,
            f"{self.folder}/{METADATA_FOLDER}",
            meta.directory_id or b"",
            voters,
            endpoints,
            self._options.listener,
            self._bootstrap(),
            listeners=frozenset(each.listener for each in listeners.of_controllers(config)),
            own_endpoints=[
                VoterEndpoint(name=each.listener, host=each.host, port=each.port)
                for each in listeners.shown_by_controllers(config)
                if each.port
            ],
            founding=[
                Create(tree.CLUSTER_ID, tree.format_cluster_id(meta.cluster_id)),
                *founding(config),
                *(Create(f"{tree.USER_CONFIGS}/{node_name(name)}", tree.format_config(users[name])) for name in users),
            ],
            users=users,
            options=Options.of(config),
            request_timeout_ms=config.controller_quorum_request_timeout_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            segment_bytes=config.metadata_log_segment_bytes,
            snapshot_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            snapshot_ms=config.metadata_log_max_snapshot_interval_ms,
        )

    def _voters(self) -> tuple[VoterSet, dict[int, Endpoint]]:
        """The fixed voters of the options, or those that the directory was formatted with. A node that was formatted
        with neither learns from the log who votes."""
        chosen = self._options
        if chosen.voters:
            fixed = {each.node_id: controller_endpoint(chosen.listener, each.host, each.port) for each in chosen.voters}
            return _static(fixed), fixed
        found = voters_of(self.folder)
        if not found:
            return VoterSet(directories=False), {}
        endpoints = {
            each.voter_id: controller_endpoint(chosen.listener, place.host, place.port)
            for each in found
            for place in each.endpoints
            if place.name.upper() == chosen.listener
        }
        return VoterSet.of(found), endpoints

    def _bootstrap(self) -> list[Endpoint]:
        """The bootstrap servers without this node. Each of them can name the leader."""
        chosen = self._options
        return [controller_endpoint(chosen.listener, *each) for each in chosen.bootstrap if each != chosen.own]


def _static(fixed: Mapping[int, Endpoint]) -> VoterSet:
    records = [
        voter_record(ReplicaKey(node), [VoterEndpoint(name=place.listener, host=place.host, port=place.port)])
        for node, place in fixed.items()
    ]
    return VoterSet(map(ReplicaKey, fixed), directories=False, records=records)


def voters_of(folder: str) -> Sequence[Voter]:
    """The voters of the newest snapshot in the log directory, which was formatted with one; () if there is none.
    CannotStart if it is damaged."""
    metadata = f"{folder}/{METADATA_FOLDER}"
    disk = OsDisk([folder])
    try:
        found = snapshots.held(disk.list(metadata)) if disk.exists(metadata) else []
        return (snapshots.heading(disk, metadata, found[-1]).state.voters or ()) if found else ()
    except (OSError, DiskFailed, CorruptLog) as error:
        raise CannotStart(f"The controllers of this node are not known: {error}.") from None


def check_abandoned(config: BrokerConfig) -> None:
    """InvalidOption if a metadata store is configured beside the roles of a node whose directory has a metadata log: a
    cluster has one of them."""
    if not config.process_roles or config.has_quorum:
        return
    folder = Path(config.metadata_log_dir or config.folders[0], METADATA_FOLDER)
    store = "metadata.store" if config.metadata_store else "zookeeper.connect"
    if folder.is_dir() and (config.metadata_store or config.zookeeper_connect):
        raise InvalidOption(
            f"process.roles: {store} is set, too, but {folder} is the log of a metadata quorum; remove {store} to use "
            "the quorum, or move the metadata (tidelog metadata export, import) and remove process.roles"
        )


def users_of(folder: str) -> dict[str, dict[str, str]]:
    """The SCRAM users that the log directory was formatted with, their credentials by mechanism. CannotStart if they
    cannot be read."""
    path = f"{folder}/{BOOTSTRAP}"
    disk = OsDisk([folder])
    users: dict[str, dict[str, str]] = {}
    try:
        batches = list(snapshots.read(disk.read(path), path)) if disk.exists(path) else []
    except (OSError, DiskFailed, CorruptLog) as error:
        raise CannotStart(f"The users that this node was formatted with are not known: {error}.") from None
    for record in (each for batch in batches for each in batch):
        if isinstance(record, UserScramCredentialRecord):
            mechanism = next(each for each in scram.MECHANISMS.values() if each.number == record.mechanism)
            credential = scram.Credential(record.salt, record.stored_key, record.server_key, record.iterations)
            users.setdefault(record.name, {})[mechanism.name] = scram.format_credential(credential)
    return users
