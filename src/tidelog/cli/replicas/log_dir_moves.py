"""Moves of replicas between log directories of one broker: start them, and report their state."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import click

from tidelog.cli.admin_requests import describe_error
from tidelog.cli.formatting import comma_list, plural_suffix
from tidelog.cli.options import CommandFailed
from tidelog.cli.replicas.json_files import TopicPartitionReplica
from tidelog.cli.replicas.replica_requests import replicas_in_log_dirs
from tidelog.errors import ErrorCode
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

RETRY_S = 0.1


class LogDirMove(NamedTuple):
    """One replica's move. `current` is its log directory, or '' if it is in no online one; `future` is the directory
    that it is being copied to, or ''."""

    replica: TopicPartitionReplica
    target: str
    current: str = ""
    future: str = ""

    @property
    def is_active(self) -> bool:
        return bool(self.current and self.future)

    @property
    def is_done(self) -> bool:
        return not self.future

    @property
    def status_line(self) -> str:
        broker, topic, partition = self.replica
        if not self.current:
            return (
                f"Partition {topic}-{partition} is not found in any live log dir on broker {broker}. "
                "There is likely an offline log directory on the broker."
            )
        if self.future == self.target:
            return f"Reassignment of replica {self.replica} is still in progress."
        if self.future:
            where = f"is being moved to log dir {self.future} instead of {self.target}."
            return f"Partition {topic}-{partition} on broker {broker} {where}"
        if self.current == self.target:
            return f"Reassignment of replica {self.replica} completed successfully."
        where = f"is not being moved from log dir {self.current} to {self.target}."
        return f"Partition {topic}-{partition} on broker {broker} {where}"


def move_states(admin: Admin, targets: Mapping[TopicPartitionReplica, str]) -> list[LogDirMove]:
    """The state of the move of each of these replicas."""
    found = replicas_in_log_dirs(admin, {replica.broker for replica in targets})
    result = []
    for replica, target in sorted(targets.items()):
        holdings = found.get(replica, ())
        current = next((each.log_dir for each in holdings if not each.is_future), "")
        future = next((each.log_dir for each in holdings if each.is_future), "")
        result.append(LogDirMove(replica, target, current, future))
    return result


def start_moves(admin: Admin, targets: Mapping[TopicPartitionReplica, str], deadline_s: float) -> None:
    """Start the moves; retry for a replica that is not created yet, until the deadline (monotonic seconds)."""
    waiting = dict(targets)
    while True:
        for replica in _started(admin, waiting):
            broker, topic, partition = replica
            log_dir = waiting.pop(replica)
            click.echo(
                f"Successfully started moving log directory to {log_dir} for replica {topic}-{partition} "
                f"with broker {broker} "
            )
        if not waiting:
            return
        if time.monotonic() >= deadline_s:
            left = comma_list(sorted(waiting))
            raise CommandFailed(
                f"Timed out before log directory move{plural_suffix(waiting)} could be started for: {left}"
            )
        time.sleep(RETRY_S)


def _started(admin: Admin, targets: Mapping[TopicPartitionReplica, str]) -> list[TopicPartitionReplica]:
    started: list[TopicPartitionReplica] = []
    for broker in sorted({replica.broker for replica in targets}):
        own = {replica: log_dir for replica, log_dir in targets.items() if replica.broker == broker}
        for topic in admin.ask(_request(own), broker).results:
            for each in topic.partitions:
                replica = TopicPartitionReplica(broker, topic.topic_name, each.partition_index)
                if each.error_code == ErrorCode.NONE:
                    started.append(replica)
                elif each.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    raise CommandFailed(f"Failed to alter dir for {replica}: {describe_error(each.error_code)}")
    return sorted(started)


def _request(targets: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    dirs: dict[str, dict[str, list[int]]] = {}
    for (_, topic, partition), log_dir in sorted(targets.items()):
        dirs.setdefault(log_dir, {}).setdefault(topic, []).append(partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=log_dir,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=partitions) for name, partitions in topics.items()
                ],
            )
            for log_dir, topics in dirs.items()
        ]
    )
