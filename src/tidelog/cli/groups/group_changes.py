"""`tidelog groups --reset-offsets`, `--delete` and `--delete-offsets`.

A reset makes a plan of new offsets, which is printed, exported as CSV, or committed.
"""

import csv
import io
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from tidelog.cli.admin_requests import EARLIEST, LATEST, describe_error, list_offsets, metadata
from tidelog.cli.formatting import MISSING, Column, table_lines
from tidelog.cli.groups.group_requests import NEWEST_VERSION_BY_NAME, all_groups, committed_offsets, describe_group
from tidelog.cli.options import CommandFailed, usage_error
from tidelog.client.admin import Coordinator
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest

COLUMNS = (
    Column("GROUP", 15, grows=True),
    Column("TOPIC", 15, grows=True),
    Column("PARTITION", 10),
    Column("NEW-OFFSET", 0),
)
DRY_RUN_WARNING = "WARN: No offsets were changed. Use --execute to commit them, or --dry-run to hide this warning."

Offsets = dict[TopicPartition, int]


def reset_offsets(admin: Admin, given: Mapping[str, Any]) -> None:
    names = [group.group_id for group in all_groups(admin)] if given["all_groups"] else list(given["group"])
    # Every group is checked before the first one is changed.
    for name in names:
        _check_inactive(admin, name)
    plans = _plans(admin, names, given)
    if given["execute"]:
        for name, plan in plans.items():
            commit_offsets(admin, name, plan)
    if given["export"]:
        click.echo(plans_as_csv(plans), nl=False)
    else:
        rows = [(name, *partition, offset) for name, plan in plans.items() for partition, offset in plan.items()]
        click.echo("\n" + "\n".join(table_lines(COLUMNS, rows)))
    if not given["execute"] and not given["dry_run"]:
        click.echo(DRY_RUN_WARNING, err=True)


def _check_inactive(admin: Admin, name: str) -> None:
    """Raise CommandFailed if the group has members. A group that does not exist may be reset: the commit creates it."""
    try:
        group = describe_group(admin, name)
    except CommandFailed:
        return
    if not group.is_inactive:
        raise CommandFailed(
            f"Offsets can only be reset while group '{name}' is inactive, but its current state is {group.state}."
        )


def _plans(admin: Admin, names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Offsets]:
    if given["from_file"]:
        names = list(names)
        plans = parse_plans(Path(given["from_file"]).read_text(encoding="utf-8"), names)
        return {name: _clamped(admin, plans.get(name, {})) for name in names}
    return {name: plan_for(admin, name, partitions_in_scope(admin, name, given), given) for name in names}


def plan_for(admin: Admin, name: str, partitions: list[TopicPartition], given: Mapping[str, Any]) -> Offsets:
    """The new offset of each partition, by the one scenario on the command line."""
    if given["to_earliest"] or given["to_latest"]:
        return _offsets_at(admin, partitions, EARLIEST if given["to_earliest"] else LATEST)
    if given["to_offset"] is not None:
        return _clamped(admin, dict.fromkeys(partitions, given["to_offset"]))
    if given["to_datetime"] is not None:
        return _offsets_for_time(admin, partitions, given["to_datetime"])
    if given["by_duration"] is not None:
        return _offsets_for_time(admin, partitions, time.time_ns() // 1_000_000 - given["by_duration"])
    current = {partition: found.offset for partition, found in committed_offsets(admin, name).items()}
    if given["shift_by"] is not None:
        missing = [str(partition) for partition in partitions if partition not in current]
        if missing:
            raise CommandFailed(f"Group '{name}' has no committed offset to shift in {', '.join(missing)}.")
        return _clamped(admin, {partition: current[partition] + given["shift_by"] for partition in partitions})
    ends = _offsets_at(admin, [partition for partition in partitions if partition not in current], LATEST)
    return {partition: current.get(partition, ends.get(partition, -1)) for partition in partitions}


def _offsets_at(admin: Admin, partitions: Iterable[TopicPartition], timestamp: int) -> Offsets:
    """The offset of each partition at the timestamp; CommandFailed if a partition returns an error."""
    found = list_offsets(admin, dict.fromkeys(partitions, timestamp))
    for partition, listed in found.items():
        if listed.error:
            raise CommandFailed(f"{partition}: {describe_error(listed.error)}")
    return {partition: found[partition].offset for partition in sorted(found)}


def _offsets_for_time(admin: Admin, partitions: Iterable[TopicPartition], timestamp: int) -> Offsets:
    """Offsets by timestamp; the log end offset for a partition whose records are all older."""
    found = _offsets_at(admin, partitions, timestamp)
    late = [partition for partition, offset in found.items() if offset < 0]
    for topic, partition in late:
        click.echo(
            f"Warn: Partition {partition} of topic {topic} has no record at or after this time; using its end offset.",
            err=True,
        )
    return {**found, **_offsets_at(admin, late, LATEST)}


def _clamped(admin: Admin, requested: Offsets) -> Offsets:
    """The requested offsets, limited to the log start and end offsets."""
    first, last = _offsets_at(admin, requested, EARLIEST), _offsets_at(admin, requested, LATEST)
    found = {}
    for partition, offset in requested.items():
        found[partition] = min(max(offset, first[partition]), last[partition])
        if found[partition] != offset:
            click.echo(f"WARN: New offset {offset} of {partition} is out of range; using {found[partition]}.", err=True)
    return found


def commit_offsets(admin: Admin, name: str, plan: Offsets) -> None:
    """Commit the plan without being a member; CommandFailed at the first partition that fails."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in plan.items():
        entry = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        topics.setdefault(topic, []).append(entry)
    wanted = [OffsetCommitRequestTopic(name=topic, partitions=entries) for topic, entries in topics.items()]
    if not wanted:
        return
    request = OffsetCommitRequest(group_id=name, topics=wanted)
    for topic_result in admin.ask(request, Coordinator(name), newest=NEWEST_VERSION_BY_NAME).topics:
        for entry in topic_result.partitions:
            if entry.error_code:
                raise CommandFailed(f"{topic_result.name}-{entry.partition_index}: {describe_error(entry.error_code)}")


def plans_as_csv(plans: Mapping[str, Offsets]) -> str:
    """CSV lines topic,partition,offset, preceded by the group if there is more than one. Quoted as by Kafka's library,
    which quotes each text of more than 24 characters."""
    lines = []
    for name, plan in plans.items():
        for (topic, partition), offset in plan.items():
            texts = [*([name] if len(plans) > 1 else []), topic]
            lines.append(",".join([*map(_quoted, texts), str(partition), str(offset)]) + "\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL if len(text) > 24 else csv.QUOTE_MINIMAL, lineterminator="").writerow([text])
    return line.getvalue()


def parse_plans(text: str, names: list[str]) -> dict[str, Offsets]:
    """The inverse of `plans_as_csv`; CommandFailed if a line has neither form."""
    plans: dict[str, Offsets] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        group, *cells = row if len(row) == 4 else [names[0], *row]
        try:
            topic, partition, offset = cells
            plans.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CommandFailed(
                f"--from-file: line {number} is not valid: {','.join(row)!r}; expected [group,]topic,partition,offset."
            ) from None
    return plans


def delete_groups(admin: Admin, given: Mapping[str, Any]) -> None:
    names = [group.group_id for group in all_groups(admin)] if given["all_groups"] else list(given["group"])
    failures, deleted = [], []
    for name in names:  # a request each, since groups have different coordinators
        result = admin.ask(DeleteGroupsRequest(groups_names=[name]), Coordinator(name)).results[0]
        if result.error_code:
            failures.append(f"* Group '{name}' could not be deleted due to: {describe_error(result.error_code)}")
        else:
            deleted.append(f"'{name}'")
    if not failures:
        click.echo(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.")
        return
    if deleted:
        click.echo(f"These consumer groups were deleted successfully: {', '.join(deleted)}")
    raise CommandFailed("\n".join(["Error: Deletion of some consumer groups failed:", *failures]))


def delete_offsets(admin: Admin, given: Mapping[str, Any]) -> None:
    name = given["group"][0]
    wanted, missing = _partitions_to_delete(admin, [parse_topic_partitions(text) for text in given["topic"]])
    rows = [(topic, MISSING, f"Error: {sentence}") for topic, sentence in missing.items()]
    if wanted:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in numbers]
            )
            for topic, numbers in wanted.items()
        ]
        response = admin.ask(OffsetDeleteRequest(group_id=name, topics=topics), Coordinator(name))
        if response.error_code:
            raise CommandFailed(f"Group {name}: {describe_error(response.error_code)}")
        for topic in response.topics:
            rows += [
                (topic.name, str(each.partition_index), _status(each.error_code))
                for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
            ]
    click.echo(f"Request succeeded for deleting offsets from group {name}.\n")
    for row in [("TOPIC", "PARTITION", "STATUS"), *sorted(rows)]:
        click.echo(f"{row[0]:15} {row[1]:10} {row[2]:15}")
    if any(status.startswith("Error") for _, _, status in rows):
        raise CommandFailed("Some offsets were not deleted.")


def _status(code: int) -> str:
    return f"Error: {describe_error(code)}" if code else "Successful"


def _partitions_to_delete(
    admin: Admin, named: list[tuple[str, list[int] | None]]
) -> tuple[dict[str, list[int]], dict[str, str]]:
    """The partitions to delete by topic, and the error of each topic that was named without partitions and is
    unknown."""
    wanted = {topic: numbers for topic, numbers in named if numbers is not None}
    whole = [topic for topic, numbers in named if numbers is None]
    missing = {}
    for topic in metadata(admin, whole).topics if whole else []:
        if topic.error_code:
            missing[topic.name or ""] = describe_error(topic.error_code)
        else:
            wanted[topic.name or ""] = sorted(each.partition_index for each in topic.partitions)
    return wanted, missing


def partitions_in_scope(admin: Admin, group: str, given: Mapping[str, Any]) -> list[TopicPartition]:
    """The partitions that --topic and --all-topics select, sorted; CommandFailed if a topic does not exist."""
    if given["all_topics"]:
        return sorted(committed_offsets(admin, group))
    named = [parse_topic_partitions(text) for text in given["topic"]]
    found = {TopicPartition(topic, number) for topic, numbers in named for number in numbers or ()}
    whole = sorted({topic for topic, numbers in named if numbers is None})
    for topic in metadata(admin, whole).topics if whole else []:
        if topic.error_code:
            raise CommandFailed(f"Topic {topic.name}: {describe_error(topic.error_code)}")
        found.update(TopicPartition(topic.name or "", each.partition_index) for each in topic.partitions)
    return sorted(found)


def parse_topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """`topic:0,1` as the topic and its partitions; None means all partitions."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise usage_error(f"--topic: {text!r} is not valid; expected TOPIC or TOPIC:0,1,2.") from None
