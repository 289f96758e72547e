"""What `tidelog reassign-partitions` does, one function per action; prints what kafka-reassign-partitions prints."""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from tidelog.cli.admin_requests import describe_error, describe_topics
from tidelog.cli.formatting import comma_list, plural_suffix
from tidelog.cli.options import CommandFailed
from tidelog.cli.replicas import log_dir_moves, replication_throttles
from tidelog.cli.replicas.json_files import (
    Reassignment,
    TopicPartitionReplica,
    duplicates,
    format_reassignment,
    read_reassignment,
    read_topics,
)
from tidelog.cli.replicas.replica_requests import (
    broker_racks,
    log_dirs_of,
    ongoing,
    replicas_in_log_dirs,
    replicas_of,
    size_of,
)
from tidelog.client.admin import ANY
from tidelog.controller.placement import Start, place
from tidelog.explain.core.evidence import OngoingReassignment
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

TIMEOUT_MS = 10_000
ALREADY_RUNNING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
    "create a new partition assignment in addition to the existing one. The --additional "
    "flag can also be used to change the throttle by resubmitting the current reassignment."
)
THROTTLE_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)

SAMPLE_S = 1.0
"""The interval between two samples of sizes, from which the copy rate is computed."""


def generate(admin: Admin, given: Mapping[str, Any]) -> None:
    """Propose replicas, placed as the cluster would place those of new topics."""
    wanted: list[int] = given["broker_list"]
    if twice := duplicates(wanted):
        raise CommandFailed(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    current = replicas_of(admin, read_topics(given["topics_to_move_json_file"]))
    known = broker_racks(admin)
    brokers = {id_: None if given["disable_rack_aware"] else known[id_] for id_ in wanted if id_ in known}
    if len({rack is None for rack in brokers.values()}) > 1:
        raise CommandFailed(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed: dict[TopicPartition, Sequence[int]] = {}
    for topic in {partition.topic for partition in current}:
        own = sorted(partition for partition in current if partition.topic == topic)
        start = Start(random.randrange(max(1, len(brokers))), random.randrange(max(1, len(brokers))))  # noqa: S311
        placed = place(brokers, len(own), len(current[own[0]]), start)
        proposed.update(zip(own, placed, strict=True))
    click.echo(f"Current partition replica assignment\n{format_reassignment(current, log_dirs_of(admin, current))}\n")
    click.echo(f"Proposed partition reassignment configuration\n{format_reassignment(proposed)}")


def execute(admin: Admin, given: Mapping[str, Any]) -> None:
    reassignment = read_reassignment(given["reassignment_json_file"], strict=True)
    running = ongoing(admin)
    if running and not given["additional"]:
        raise CommandFailed(ALREADY_RUNNING)
    start(
        admin,
        reassignment,
        running,
        throttle=given["throttle"],
        log_dir_throttle=given["replica_alter_log_dirs_throttle"],
        allow_factor_change=not given["disallow_replication_factor_change"],
    )
    if reassignment.log_dirs:
        log_dir_moves.start_moves(admin, reassignment.log_dirs, time.monotonic() + _timeout_ms(given) / 1000)


def start(
    admin: Admin,
    reassignment: Reassignment,
    running: Mapping[TopicPartition, OngoingReassignment],
    *,
    throttle: int | None = None,
    log_dir_throttle: int | None = None,
    allow_factor_change: bool = True,
) -> None:
    """Set the throttles, then start the moves; CommandFailed if one cannot start.

    The throttles come first so that no replica copies without a limit. Without `allow_factor_change`, partitions must
    keep their number of replicas.
    """
    proposed = reassignment.replicas
    known = broker_racks(admin)
    unknown_brokers = [broker for replicas in proposed.values() for broker in replicas if broker not in known]
    if unknown_brokers:
        raise CommandFailed(f"Unknown broker id {unknown_brokers[0]}")
    current = {p: r for p, r in replicas_of(admin, (t for t, _ in proposed)).items() if p in proposed}
    if missing := proposed.keys() - current.keys():
        raise CommandFailed(f"Unable to find partition: {', '.join(map(str, sorted(missing)))}")
    click.echo(f"Current partition replica assignment\n\n{format_reassignment(current, log_dirs_of(admin, current))}\n")
    click.echo("Save this to use as the --reassignment-json-file option during rollback")
    throttled, log_dirs_throttled = throttle is not None and throttle >= 0, (log_dir_throttle or -1) >= 0
    if throttled or log_dirs_throttled:
        click.echo(THROTTLE_WARNING)
    if throttle is not None and throttled:
        replication_throttles.throttle(admin, replication_throttles.copy_paths(running, proposed, current), throttle)
    if log_dir_throttle is not None and log_dirs_throttled:
        replication_throttles.throttle_log_dirs(
            admin, {replica.broker for replica in reassignment.log_dirs}, log_dir_throttle
        )
    failed = alter_reassignments(admin, proposed, allow_factor_change=allow_factor_change)
    if failed:
        raise CommandFailed("Error reassigning partition(s):\n" + _lines(failed))
    click.echo(
        f"Successfully started partition reassignment{plural_suffix(proposed)} for {comma_list(sorted(proposed))}"
    )


def alter_reassignments(
    admin: Admin, wanted: Mapping[TopicPartition, Sequence[int] | None], *, allow_factor_change: bool = True
) -> dict[TopicPartition, str]:
    """Start these moves, or cancel the moves of partitions that are None; returns the errors by partition."""
    topics: dict[str, ReassignableTopic] = {}
    for (topic, partition), replicas in sorted(wanted.items(), key=lambda item: item[0]):
        entry = ReassignablePartition(partition_index=partition, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, ReassignableTopic(name=topic, partitions=[])).partitions.append(entry)
    request = AlterPartitionReassignmentsRequest(
        topics=list(topics.values()), allow_replication_factor_change=allow_factor_change
    )
    response = admin.ask(request, ANY)
    if response.error_code:
        raise CommandFailed(describe_error(response.error_code, response.error_message))
    return {
        TopicPartition(topic.name, each.partition_index): each.error_message or describe_error(each.error_code)
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    }


def verify(admin: Admin, given: Mapping[str, Any]) -> None:
    reassignment = read_reassignment(given["reassignment_json_file"])
    running = ongoing(admin)
    click.echo("Status of partition reassignment:")
    for line in _status_lines(admin, reassignment.replicas, running):
        click.echo(line)
    if given["progress"]:
        print_progress(admin, {p: move for p, move in running.items() if p in reassignment.replicas})
    states = log_dir_moves.move_states(admin, reassignment.log_dirs)
    click.echo("\n".join(state.status_line for state in states))
    if not running and all(state.is_done for state in states) and not given["preserve_throttles"]:
        replication_throttles.clear(admin, reassignment.replicas)


def _status_lines(
    admin: Admin, wanted: Mapping[TopicPartition, Sequence[int]], running: Mapping[TopicPartition, OngoingReassignment]
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
                f"but replica set is {comma_list(found)} rather than {comma_list(target)}."
            )


def cancel(admin: Admin, given: Mapping[str, Any]) -> None:
    reassignment = read_reassignment(given["reassignment_json_file"])
    active = sorted(ongoing(admin).keys() & reassignment.replicas.keys())
    if active:
        failed = alter_reassignments(admin, dict.fromkeys(active))
        if failed:
            raise CommandFailed(
                f"Error cancelling partition reassignment{plural_suffix(failed)} for:\n" + _lines(failed)
            )
        click.echo(f"Successfully cancelled partition reassignment{plural_suffix(active)} for: {comma_list(active)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    moving = {
        state.replica: state.current
        for state in log_dir_moves.move_states(admin, reassignment.log_dirs)
        if state.is_active
    }
    if moving:
        log_dir_moves.start_moves(admin, moving, time.monotonic() + _timeout_ms(given) / 1000)
    else:
        click.echo("None of the specified partition moves are active.", nl=False)
    if not given["preserve_throttles"]:
        replication_throttles.clear(admin, reassignment.replicas)


def list_moves(admin: Admin, given: Mapping[str, Any]) -> None:
    running = ongoing(admin)
    if not running:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for partition, move in running.items():
        parts = [f"{partition}: replicas: {comma_list(move.replicas)}."]
        parts += [f"adding: {comma_list(move.adding)}."] if move.adding else []
        parts += [f"removing: {comma_list(move.removing)}."] if move.removing else []
        click.echo(" ".join(parts))
    if given["progress"]:
        print_progress(admin, running)


def _timeout_ms(given: Mapping[str, Any]) -> int:
    return TIMEOUT_MS if given["timeout"] is None else int(given["timeout"])


def _lines(failed: Mapping[TopicPartition, str]) -> str:
    return "\n".join(f"{partition}: {why}" for partition, why in sorted(failed.items()))


def print_progress(admin: Admin, moves: Mapping[TopicPartition, OngoingReassignment]) -> None:
    """Print a line for each partition that is being copied, and one for all."""
    began = time.monotonic()
    before = missing_bytes(admin, moves)
    if not before:
        return
    time.sleep(SAMPLE_S)
    after = missing_bytes(admin, moves)
    seconds = time.monotonic() - began
    for partition, left in after.items():
        click.echo(f"{partition}: {_time_left(left, (before[partition] - left) / seconds)}")
    left = sum(after.values())
    click.echo(f"All: {_time_left(left, (sum(before.values()) - left) / seconds)}")


def missing_bytes(admin: Admin, moves: Mapping[TopicPartition, OngoingReassignment]) -> dict[TopicPartition, int]:
    """How many bytes the replicas being added are behind their leader, by partition."""
    copied = {partition: move for partition, move in moves.items() if move.adding}
    leaders = {
        TopicPartition(topic.name, each.partition_index): each.leader_id
        for topic in describe_topics(admin, sorted({topic for topic, _ in copied}))
        for each in topic.partitions
    }
    brokers = {broker for partition, move in copied.items() for broker in (*move.adding, leaders.get(partition, -1))}
    found = replicas_in_log_dirs(admin, brokers - {-1})
    return {
        partition: sum(
            max(
                0,
                size_of(found, TopicPartitionReplica(leaders.get(partition, -1), *partition))
                - size_of(found, TopicPartitionReplica(b, *partition)),
            )
            for b in move.adding
        )
        for partition, move in copied.items()
    }


def _time_left(count: int, speed: float) -> str:
    if count == 0:
        return "0 bytes left"
    if speed <= 0:
        return f"{count:,} bytes left, none copied in the last second"
    minutes, seconds = divmod(round(count / speed), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{count:,} bytes left at {speed:,.0f} B/s: {hours}:{minutes:02}:{seconds:02} to go"


RUN = {"generate": generate, "execute": execute, "verify": verify, "cancel": cancel, "list": list_moves}
