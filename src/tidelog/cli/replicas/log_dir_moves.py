"""Replicas that move between folders of one broker: started, and looked at."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import click

from tidelog.cli.admin_requests import reason
from tidelog.cli.formatting import listed, plural
from tidelog.cli.options import Refused
from tidelog.cli.replicas.json_files import Replica
from tidelog.cli.replicas.replica_requests import held
from tidelog.errors import ErrorCode
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

AGAIN_S = 0.1


class State(NamedTuple):
    """One replica's move. `current` is the folder it is in, empty where it is in none that lives."""

    replica: Replica
    target: str
    current: str = ""
    future: str = ""

    @property
    def active(self) -> bool:
        return bool(self.current and self.future)

    @property
    def done(self) -> bool:
        return not self.future

    @property
    def sentence(self) -> str:
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


def states(admin: Admin, targets: Mapping[Replica, str]) -> list[State]:
    """How far these replicas are on their way to their folders."""
    found = held(admin, {replica.broker for replica in targets})
    result = []
    for replica, target in sorted(targets.items()):
        holdings = found.get(replica, ())
        current = next((each.folder for each in holdings if not each.future), "")
        future = next((each.folder for each in holdings if each.future), "")
        result.append(State(replica, target, current, future))
    return result


def move(admin: Admin, targets: Mapping[Replica, str], deadline_s: float) -> None:
    """Start the moves; a replica that is not there yet is tried again until the deadline (monotonic seconds)."""
    waiting = dict(targets)
    while True:
        for replica in _started(admin, waiting):
            broker, topic, partition = replica
            folder = waiting.pop(replica)
            click.echo(
                f"Successfully started moving log directory to {folder} for replica {topic}-{partition} "
                f"with broker {broker} "
            )
        if not waiting:
            return
        if time.monotonic() >= deadline_s:
            left = listed(sorted(waiting))
            raise Refused(f"Timed out before log directory move{plural(waiting)} could be started for: {left}")
        time.sleep(AGAIN_S)


def _started(admin: Admin, targets: Mapping[Replica, str]) -> list[Replica]:
    started: list[Replica] = []
    for broker in sorted({replica.broker for replica in targets}):
        own = {replica: folder for replica, folder in targets.items() if replica.broker == broker}
        for topic in admin.ask(_request(own), broker).results:
            for each in topic.partitions:
                replica = Replica(broker, topic.topic_name, each.partition_index)
                if each.error_code == ErrorCode.NONE:
                    started.append(replica)
                elif each.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    raise Refused(f"Failed to alter dir for {replica}: {reason(each.error_code)}")
    return sorted(started)


def _request(targets: Mapping[Replica, str]) -> AlterReplicaLogDirsRequest:
    dirs: dict[str, dict[str, list[int]]] = {}
    for (_, topic, partition), folder in sorted(targets.items()):
        dirs.setdefault(folder, {}).setdefault(topic, []).append(partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=folder,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=partitions) for name, partitions in topics.items()
                ],
            )
            for folder, topics in dirs.items()
        ]
    )
