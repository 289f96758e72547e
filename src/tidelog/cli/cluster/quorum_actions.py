"""What `tidelog quorum` does; lines and messages are those of kafka-metadata-quorum of 4.3.1."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli.cluster.connecting import Asks
from tidelog.cli.options import CommandFailed
from tidelog.client.admin import ANY
from tidelog.client.results import code_of
from tidelog.config.broker import BrokerConfig
from tidelog.config.listeners import advertised_by_controllers, of_controllers
from tidelog.errors import ApiError, CorruptLog
from tidelog.log.checkpoints import META_PROPERTIES, read_meta_properties
from tidelog.model import NO_ID, id_bytes, id_text
from tidelog.wire.messages.cluster.brokers import DescribeClusterRequest
from tidelog.wire.messages.cluster.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from tidelog.wire.messages.cluster.quorum_voters import AddRaftVoterRequest, Listener, RemoveRaftVoterRequest

TOPIC = "__cluster_metadata"
TIMEOUT_MS = 30_000
COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
_NO_CONTROLLER = "Is this a valid controller configuration file?"


class Controller(NamedTuple):
    """A controller; `endpoints` are those of its controllers' listeners, as NAME://HOST:PORT."""

    node_id: int
    directory_id: bytes
    endpoints: Sequence[Listener] = ()

    @property
    def directory(self) -> str:
        return id_text(self.directory_id)

    def __str__(self) -> str:
        return f"endpoints: {', '.join(map(_address, self.endpoints))}"


class Described(NamedTuple):
    """What the leader of the quorum reports."""

    response: DescribeQuorumResponse
    partition: Any
    leader: ReplicaState


def _described(admin: Asks) -> Described:
    request = DescribeQuorumRequest(topics=[TopicData(topic_name=TOPIC, partitions=[PartitionData(partition_index=0)])])
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while True:
        response = admin.ask(request, ANY)
        _raise_for(response)
        partition = response.topics[0].partitions[0]
        leaders = [each for each in partition.current_voters if each.replica_id == partition.leader_id]
        if not partition.error_code and leaders:
            return Described(response, partition, leaders[0])
        if time.monotonic() > deadline:
            _raise_for(partition)
            raise CommandFailed(f"The leader of the metadata quorum, {partition.leader_id}, is not among its voters.")
        time.sleep(0.1)


def _raise_for(response: Any) -> None:
    if response.error_code:
        raise ApiError(code_of(response.error_code), response.error_message)


def status(admin: Asks) -> str:
    cluster = admin.ask(DescribeClusterRequest(), ANY)
    _raise_for(cluster)
    response, partition, leader = _described(admin)
    last = min(partition.current_voters, key=lambda voter: voter.log_end_offset)
    behind_ms = -1
    if last is leader:
        behind_ms = 0
    elif leader.last_caught_up_timestamp >= 0 and last.last_caught_up_timestamp >= 0:
        behind_ms = leader.last_caught_up_timestamp - last.last_caught_up_timestamp
    shown = {
        "ClusterId": cluster.cluster_id,
        "LeaderId": partition.leader_id,
        "LeaderEpoch": partition.leader_epoch,
        "HighWatermark": partition.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - last.log_end_offset,
        "MaxFollowerLagTimeMs": behind_ms,
        "CurrentVoters": _nodes(partition.current_voters, response),
        "CurrentObservers": _nodes(partition.observers, response),
    }
    return "\n".join(f"{title + ':':23} {value}" for title, value in shown.items())


def _nodes(replicas: Sequence[ReplicaState], response: DescribeQuorumResponse) -> str:
    listeners = {node.node_id: node.listeners for node in response.nodes}
    return f"[{', '.join(_node(each, listeners.get(each.replica_id, ())) for each in replicas)}]"


def _node(replica: ReplicaState, listeners: Sequence[Any]) -> str:
    fields = [f'"id": {replica.replica_id}']
    if replica.replica_directory_id != NO_ID:
        fields.append(f'"directoryId": "{id_text(replica.replica_directory_id)}"')
    if listeners:
        addresses = ", ".join(f'"{_address(each)}"' for each in listeners)
        fields.append(f'"endpoints": [{addresses}]')
    return f"{{{', '.join(fields)}}}"


def _address(listener: Any) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"


def replication(admin: Asks, *, human_readable: bool) -> str:
    partition, leader = _described(admin)[1:]
    followers = [each for each in partition.current_voters if each is not leader]
    kinds = (("Leader", [leader]), ("Follower", followers), ("Observer", partition.observers))
    now_ms = time.time_ns() // 1_000_000 if human_readable else None
    rows = [COLUMNS, *(_row(each, leader, kind, now_ms) for kind, replicas in kinds for each in replicas)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_padded(row, widths) for row in rows)


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:{width}}\t" for cell, width in zip(row, widths, strict=True))


def _row(replica: ReplicaState, leader: ReplicaState, kind: str, now_ms: int | None) -> tuple[str, ...]:
    moments = (replica.last_fetch_timestamp, replica.last_caught_up_timestamp)
    return (
        str(replica.replica_id),
        id_text(replica.replica_directory_id),
        str(replica.log_end_offset),
        str(leader.log_end_offset - replica.log_end_offset),
        *(str(at) if at < 0 or now_ms is None else f"{max(0, now_ms - at)} ms ago" for at in moments),
        kind,
    )


def controller_of(options: Mapping[str, str]) -> Controller:
    """The controller with this server.properties, and the directory ID that its folder was formatted with."""
    node_id = options.get("node.id", "")
    if not node_id:
        raise CommandFailed(f"node.id not found in configuration file. {_NO_CONTROLLER}")
    if not node_id.lstrip("-").isdecimal():
        raise CommandFailed(f"node.id: {node_id!r} is not a number. {_NO_CONTROLLER}")
    if int(node_id) < 0:
        raise CommandFailed(f"node.id was negative in configuration file. {_NO_CONTROLLER}")
    if "controller" not in options.get("process.roles", ""):
        raise CommandFailed(f"process.roles did not contain 'controller' in configuration file. {_NO_CONTROLLER}")
    folder = options.get("metadata.log.dir") or options.get("log.dirs", "").split(",")[0].strip()
    if not folder:
        raise CommandFailed(f"Neither metadata.log.dir nor log.dirs were found. {_NO_CONTROLLER}")
    return Controller(int(node_id), _directory_id(folder), list(_endpoints(options)))


def _directory_id(folder: str) -> bytes:
    file = Path(folder, META_PROPERTIES)
    try:
        found = read_meta_properties(file.read_bytes(), str(file))
    except OSError:
        raise CommandFailed(f"Unable to read meta.properties from {folder}") from None
    except CorruptLog as error:
        raise CommandFailed(f"{error}.") from None
    if found.directory_id is None:
        raise CommandFailed(f"No directory id found in {folder}")
    return found.directory_id


def _endpoints(options: Mapping[str, str]) -> Iterator[Listener]:
    """Where the controllers' listeners are reached: as advertised, else as bound."""
    names = options.get("controller.listener.names")
    if names is None:
        raise CommandFailed(f"controller.listener.names was not found. {_NO_CONTROLLER}")
    config = BrokerConfig(options)
    known = {each.listener: each for each in (*of_controllers(config), *advertised_by_controllers(config))}
    for name in (each.strip().upper() for each in names.split(",")):
        if name not in known:
            raise CommandFailed(f"Cannot find information about controller listener name: {name}")
        yield Listener(name=name, host=known[name].host or "localhost", port=known[name].port)


def named(node_id: int, directory: str) -> Controller:
    if node_id < 0:
        raise CommandFailed(f"Invalid negative --controller-id: {node_id}")
    try:
        return Controller(node_id, id_bytes(directory))
    except ValueError as error:
        raise CommandFailed(f"Failed to parse --controller-directory-id: {error}") from None


def add(admin: Asks, controller: Controller) -> None:
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=TIMEOUT_MS,
        voter_id=controller.node_id,
        voter_directory_id=controller.directory_id,
        listeners=list(controller.endpoints),
    )
    _raise_for(admin.ask(request, ANY))


def remove(admin: Asks, controller: Controller) -> None:
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=controller.node_id, voter_directory_id=controller.directory_id
    )
    _raise_for(admin.ask(request, ANY))
