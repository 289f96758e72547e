"""What `reassign-partitions` does, one function an action."""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from tidelog.cli.admin_requests import describe_topics, reason
from tidelog.cli.formatting import listed, plural
from tidelog.cli.options import Refused
from tidelog.cli.replicas import log_dir_moves, replication_throttles
from tidelog.cli.replicas.json_files import Replica, Wishes, duplicates, format_wishes, read_topics, read_wishes
from tidelog.cli.replicas.replica_requests import Ongoing, folders_of, held, ongoing, racks, replicas_of, size_of
from tidelog.client.admin import ANY
from tidelog.controller.placement import Start, place
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

TIMEOUT_MS = 10_000
EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
    "create a new partition assignment in addition to the existing one. The --additional "
    "flag can also be used to change the throttle by resubmitting the current reassignment."
)
PERIODICALLY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)

LOOK_S = 1.0
"""Between two looks at the sizes, from which the speed follows."""


def generate(admin: Admin, given: Mapping[str, Any]) -> None:
    """Propose replicas as the cluster would place them in new topics."""
    wanted: list[int] = given["broker_list"]
    if twice := duplicates(wanted):
        raise Refused(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    current = replicas_of(admin, read_topics(given["topics_to_move_json_file"]))
    known = racks(admin)
    brokers = {id_: None if given["disable_rack_aware"] else known[id_] for id_ in wanted if id_ in known}
    if len({rack is None for rack in brokers.values()}) > 1:
        raise Refused(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed: dict[TopicPartition, Sequence[int]] = {}
    for topic in {partition.topic for partition in current}:
        own = sorted(partition for partition in current if partition.topic == topic)
        start = Start(random.randrange(max(1, len(brokers))), random.randrange(max(1, len(brokers))))  # noqa: S311
        placed = place(brokers, len(own), len(current[own[0]]), start)
        proposed.update(zip(own, placed, strict=True))
    click.echo(f"Current partition replica assignment\n{format_wishes(current, folders_of(admin, current))}\n")
    click.echo(f"Proposed partition reassignment configuration\n{format_wishes(proposed)}")


def execute(admin: Admin, given: Mapping[str, Any]) -> None:
    wishes = read_wishes(given["reassignment_json_file"], strict=True)
    running = ongoing(admin)
    if running and not given["additional"]:
        raise Refused(EXISTING)
    start(
        admin,
        wishes,
        running,
        throttle=given["throttle"],
        folder_throttle=given["replica_alter_log_dirs_throttle"],
        free=not given["disallow_replication_factor_change"],
    )
    if wishes.folders:
        log_dir_moves.move(admin, wishes.folders, time.monotonic() + _timeout_ms(given) / 1000)


def start(
    admin: Admin,
    wishes: Wishes,
    running: Mapping[TopicPartition, Ongoing],
    *,
    throttle: int | None = None,
    folder_throttle: int | None = None,
    free: bool = True,
) -> None:
    """Set the throttles, then start the moves; Refused where one cannot be. Without `free` partitions must keep their
    number of replicas."""
    proposed = wishes.replicas
    known = racks(admin)
    strangers = [broker for replicas in proposed.values() for broker in replicas if broker not in known]
    if strangers:
        raise Refused(f"Unknown broker id {strangers[0]}")
    current = {p: r for p, r in replicas_of(admin, (t for t, _ in proposed)).items() if p in proposed}
    if missing := proposed.keys() - current.keys():
        raise Refused(f"Unable to find partition: {', '.join(map(str, sorted(missing)))}")
    click.echo(f"Current partition replica assignment\n\n{format_wishes(current, folders_of(admin, current))}\n")
    click.echo("Save this to use as the --reassignment-json-file option during rollback")
    throttled, folders_throttled = throttle is not None and throttle >= 0, (folder_throttle or -1) >= 0
    if throttled or folders_throttled:
        click.echo(PERIODICALLY)
    if throttle is not None and throttled:
        replication_throttles.throttle(admin, replication_throttles.paths(running, proposed, current), throttle)
    if folder_throttle is not None and folders_throttled:
        replication_throttles.throttle_folders(admin, {replica.broker for replica in wishes.folders}, folder_throttle)
    failed = alter(admin, proposed, free=free)
    if failed:
        raise Refused("Error reassigning partition(s):\n" + _lines(failed))
    click.echo(f"Successfully started partition reassignment{plural(proposed)} for {listed(sorted(proposed))}")


def alter(
    admin: Admin, wanted: Mapping[TopicPartition, Sequence[int] | None], *, free: bool = True
) -> dict[TopicPartition, str]:
    """Start these moves, or cancel those that are None; why those failed that did."""
    topics: dict[str, ReassignableTopic] = {}
    for (topic, partition), replicas in sorted(wanted.items(), key=lambda item: item[0]):
        entry = ReassignablePartition(partition_index=partition, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, ReassignableTopic(name=topic, partitions=[])).partitions.append(entry)
    request = AlterPartitionReassignmentsRequest(topics=list(topics.values()), allow_replication_factor_change=free)
    response = admin.ask(request, ANY)
    if response.error_code:
        raise Refused(reason(response.error_code, response.error_message))
    return {
        TopicPartition(topic.name, each.partition_index): each.error_message or reason(each.error_code)
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    }


def verify(admin: Admin, given: Mapping[str, Any]) -> None:
    wishes = read_wishes(given["reassignment_json_file"])
    running = ongoing(admin)
    click.echo("Status of partition reassignment:")
    for line in _states(admin, wishes.replicas, running):
        click.echo(line)
    if given["progress"]:
        print_progress(admin, {p: move for p, move in running.items() if p in wishes.replicas})
    states = log_dir_moves.states(admin, wishes.folders)
    click.echo("\n".join(state.sentence for state in states))
    if not running and all(state.done for state in states) and not given["preserve_throttles"]:
        replication_throttles.clear(admin, wishes.replicas)


def _states(
    admin: Admin, wanted: Mapping[TopicPartition, Sequence[int]], running: Mapping[TopicPartition, Ongoing]
) -> Iterable[str]:
    settled = sorted({topic for topic, partition in wanted if (topic, partition) not in running})
    known = {
        (topic.name, each.partition_index): list(each.replica_nodes)
        for topic in describe_topics(admin, settled)
        for each in topic.partitions
    }
    for partition, target in sorted(wanted.items()):
        found = known.get(partition, [])
        if partition in running:
            yield f"Reassignment of partition {partition} is still in progress."
        elif found == list(target):
            yield f"Reassignment of partition {partition} is completed."
        else:
            yield (
                f"There is no active reassignment of partition {partition}, "
                f"but replica set is {listed(found)} rather than {listed(target)}."
            )


def cancel(admin: Admin, given: Mapping[str, Any]) -> None:
    wishes = read_wishes(given["reassignment_json_file"])
    active = sorted(ongoing(admin).keys() & wishes.replicas.keys())
    if active:
        failed = alter(admin, dict.fromkeys(active))
        if failed:
            raise Refused(f"Error cancelling partition reassignment{plural(failed)} for:\n" + _lines(failed))
        click.echo(f"Successfully cancelled partition reassignment{plural(active)} for: {listed(active)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    moving = {state.replica: state.current for state in log_dir_moves.states(admin, wishes.folders) if state.active}
    if moving:
        log_dir_moves.move(admin, moving, time.monotonic() + _timeout_ms(given) / 1000)
    else:
        click.echo("None of the specified partition moves are active.", nl=False)
    if not given["preserve_throttles"]:
        replication_throttles.clear(admin, wishes.replicas)


def list_moves(admin: Admin, given: Mapping[str, Any]) -> None:
    running = ongoing(admin)
    if not running:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for partition, move in running.items():
        parts = [f"{partition}: replicas: {listed(move.replicas)}."]
        parts += [f"adding: {listed(move.adding)}."] if move.adding else []
        parts += [f"removing: {listed(move.removing)}."] if move.removing else []
        click.echo(" ".join(parts))
    if given["progress"]:
        print_progress(admin, running)


def _timeout_ms(given: Mapping[str, Any]) -> int:
    return TIMEOUT_MS if given["timeout"] is None else int(given["timeout"])


def _lines(failed: Mapping[TopicPartition, str]) -> str:
    return "\n".join(f"{partition}: {why}" for partition, why in sorted(failed.items()))


RUN = {"generate": generate, "execute": execute, "verify": verify, "cancel": cancel, "list": list_moves}


def print_progress(admin: Admin, moves: Mapping[TopicPartition, Ongoing]) -> None:
    """One line a partition that is copied, and one for all."""
    began = time.monotonic()
    before = lacking(admin, moves)
    if not before:
        return
    time.sleep(LOOK_S)
    after = lacking(admin, moves)
    seconds = time.monotonic() - began
    for partition, left in after.items():
        click.echo(f"{partition}: {_left(left, (before[partition] - left) / seconds)}")
    left = sum(after.values())
    click.echo(f"All: {_left(left, (sum(before.values()) - left) / seconds)}")


def lacking(admin: Admin, moves: Mapping[TopicPartition, Ongoing]) -> dict[TopicPartition, int]:
    """Bytes that the replicas being added lack of what their leader has, by partition."""
    copied = {partition: move for partition, move in moves.items() if move.adding}
    leaders = {
        TopicPartition(topic.name, each.partition_index): each.leader_id
        for topic in describe_topics(admin, sorted({topic for topic, _ in copied}))
        for each in topic.partitions
    }
    brokers = {broker for partition, move in copied.items() for broker in (*move.adding, leaders.get(partition, -1))}
    found = held(admin, brokers - {-1})
    return {
        partition: sum(
            max(
                0,
                size_of(found, Replica(leaders.get(partition, -1), *partition))
                - size_of(found, Replica(b, *partition)),
            )
            for b in move.adding
        )
        for partition, move in copied.items()
    }


def _left(count: int, speed: float) -> str:
    if count == 0:
        return "0 bytes left"
    if speed <= 0:
        return f"{count:,} bytes left, none copied in the last second"
    minutes, seconds = divmod(round(count / speed), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{count:,} bytes left at {speed:,.0f} B/s: {hours}:{minutes:02}:{seconds:02} to go"
