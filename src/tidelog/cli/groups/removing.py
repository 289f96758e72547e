"""`--delete` and `--delete-offsets`."""

from collections.abc import Mapping
from typing import Any

import click

from tidelog.cli.cluster import metadata, reason
from tidelog.cli.groups.listing import all_groups
from tidelog.cli.groups.scope import named_partitions
from tidelog.cli.options import Refused
from tidelog.cli.table import MISSING
from tidelog.client.admin import Coordinator
from tidelog.shell.transport import Admin
from tidelog.wire.messages.groups.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def delete_groups(admin: Admin, given: Mapping[str, Any]) -> None:
    names = [group.group_id for group in all_groups(admin)] if given["all_groups"] else list(given["group"])
    failures, deleted = [], []
    for name in names:
        result = admin.ask(DeleteGroupsRequest(groups_names=[name]), Coordinator(name)).results[0]
        if result.error_code:
            failures.append(f"* Group '{name}' could not be deleted due to: {reason(result.error_code)}")
        else:
            deleted.append(f"'{name}'")
    if not failures:
        click.echo(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.")
        return
    if deleted:
        click.echo(f"These consumer groups were deleted successfully: {', '.join(deleted)}")
    raise Refused("\n".join(["Error: Deletion of some consumer groups failed:", *failures]))


def delete_offsets(admin: Admin, given: Mapping[str, Any]) -> None:
    name = given["group"][0]
    wanted, missing = _wanted(admin, [named_partitions(text) for text in given["topic"]])
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
            raise Refused(f"Group {name}: {reason(response.error_code)}")
        for topic in response.topics:
            rows += [
                (topic.name, str(each.partition_index), _status(each.error_code))
                for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
            ]
    click.echo(f"Request succeeded for deleting offsets from group {name}.\n")
    for row in [("TOPIC", "PARTITION", "STATUS"), *sorted(rows)]:
        click.echo(f"{row[0]:15} {row[1]:10} {row[2]:15}")
    if any(status.startswith("Error") for _, _, status in rows):
        raise Refused("Some offsets were not deleted.")


def _status(code: int) -> str:
    return f"Error: {reason(code)}" if code else "Successful"


def _wanted(admin: Admin, named: list[tuple[str, list[int] | None]]) -> tuple[dict[str, list[int]], dict[str, str]]:
    """The partitions of each topic, and why a topic that is named as a whole has none."""
    wanted = {topic: numbers for topic, numbers in named if numbers is not None}
    whole = [topic for topic, numbers in named if numbers is None]
    missing = {}
    for topic in metadata(admin, whole).topics if whole else []:
        if topic.error_code:
            missing[topic.name or ""] = reason(topic.error_code)
        else:
            wanted[topic.name or ""] = sorted(each.partition_index for each in topic.partitions)
    return wanted, missing
