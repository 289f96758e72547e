"""`tidelog rebalance`: balances replicas, bytes and leaders; prints the plan, then executes it in batches."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.formatting import comma_list
from tidelog.cli.options import CommandFailed, broker_ids, check_applicable, cluster_options, flag, single_action

if TYPE_CHECKING:
    from tidelog.model import TopicPartition
    from tidelog.shell.transport import Admin

ACTIONS = ("plan", "execute")
ACTIONS_OF_OPTION = {"throttle": ("execute",), "batch": ("execute",), "timeout": ("execute",)}
BATCH = 20
POLL_S = 0.2


@click.command()
@cluster_options
@flag("plan", "Show the moves, and each broker's load before and after.")
@flag("execute", "Show the moves, execute them in batches, elect preferred leaders.")
@click.option("--broker-list", help="Brokers to place replicas on, e.g. 0,1,2 (default: all live brokers).")
@click.option("--topic", help="Regular expression for topic names (default: all topics).")
@click.option("--batch", type=click.IntRange(1), help=f"Number of partitions per batch (default: {BATCH}).")
@click.option("--throttle", type=click.IntRange(1), help="Limit for copying between brokers, in bytes/s.")
@click.option("--timeout", type=click.IntRange(1), help="Time limit for a batch, in ms (default: none).")
def rebalance(**given: Any) -> None:
    """Balance replicas, bytes and leaders across brokers and racks."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.replicas.balanced_layout import even_layout

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        current, sizes, racks = current_layout(admin, given)
        plan = even_layout(current, sizes, racks)
        moves = {partition: replicas for partition, replicas in plan.items() if replicas != current[partition]}
        print_plan(current, plan, sizes, moves)
        if action == "execute" and moves:
            execute_moves(admin, moves, given)


def current_layout(
    admin: "Admin", given: Mapping[str, Any]
) -> "tuple[dict[TopicPartition, list[int]], dict[TopicPartition, int], dict[int, str | None]]":
    """The replicas of the topics, their sizes in bytes, and the racks of the brokers to place them on."""
    import re

    from tidelog.cli.admin_requests import topic_names
    from tidelog.cli.replicas.replica_requests import broker_racks, ongoing, replicas_in_log_dirs, replicas_of
    from tidelog.model import TopicPartition

    if ongoing(admin):
        raise CommandFailed("A reassignment is in progress; see tidelog reassign-partitions --list.")
    known = broker_racks(admin)
    brokers = known
    if given["broker_list"]:
        named = broker_ids(given["broker_list"])
        brokers = {broker: known[broker] for broker in named if broker in known}
        if unknown_brokers := [broker for broker in named if broker not in known]:
            raise CommandFailed(f"Unknown broker id {unknown_brokers[0]}")
    try:
        wanted = re.compile(given["topic"] or ".*")
    except re.error as error:
        raise CommandFailed(f"--topic: {given['topic']!r} is not a valid regular expression: {error}.") from None
    current = replicas_of(admin, (name for name in topic_names(admin) if wanted.fullmatch(name)))
    most = max((len(replicas) for replicas in current.values()), default=0)
    if most > len(brokers):
        raise CommandFailed(
            f"A partition has {most} replicas, but there are only {len(brokers)} broker(s) to place them on."
        )
    sizes: dict[TopicPartition, int] = {}
    for replica, holdings in replicas_in_log_dirs(admin, known).items():
        name = TopicPartition(replica.topic, replica.partition)
        sizes[name] = max(sizes.get(name, 0), *(each.size for each in holdings))
    return current, sizes, brokers


def print_plan(
    before: "Mapping[TopicPartition, Sequence[int]]",
    after: "Mapping[TopicPartition, Sequence[int]]",
    sizes: "Mapping[TopicPartition, int]",
    moves: "Mapping[TopicPartition, Sequence[int]]",
) -> None:
    """Print every move, then the load of each broker before and after."""
    from tidelog.cli.replicas.balanced_layout import BrokerLoad, broker_loads

    copied = 0
    for partition, replicas in moves.items():
        new = len(set(replicas) - set(before[partition]))
        copied += new * sizes.get(partition, 0)
        what = f"{new * sizes.get(partition, 0):,} bytes" if new else "order only"
        click.echo(f"{partition}: {comma_list(before[partition])} -> {comma_list(replicas)} ({what})")
    click.echo(f"{len(moves)} of {len(before)} partitions move, {copied:,} bytes are copied.")
    old, new_loads = broker_loads(before, sizes), broker_loads(after, sizes)
    nothing = BrokerLoad(0, 0, 0)
    for broker in sorted({*old, *new_loads}):
        was, will = old.get(broker, nothing), new_loads.get(broker, nothing)
        click.echo(
            f"Broker {broker}: {was.replicas} -> {will.replicas} replicas, {was.leaders} -> {will.leaders} leaders, "
            f"{was.bytes:,} -> {will.bytes:,} bytes"
        )


def execute_moves(admin: "Admin", moves: "Mapping[TopicPartition, Sequence[int]]", given: Mapping[str, Any]) -> None:
    """Execute the moves in batches; a batch starts when the one before it is complete."""
    from tidelog.cli.replicas import leader_election, replication_throttles
    from tidelog.cli.replicas.reassignment_actions import alter_reassignments
    from tidelog.cli.replicas.replica_requests import replicas_of

    batches = list(_batches(moves, given["batch"] or BATCH))
    for number, batch in enumerate(batches, 1):
        if given["throttle"]:
            present = replicas_of(admin, (topic for topic, _ in batch))
            replication_throttles.throttle(
                admin, replication_throttles.copy_paths({}, batch, present), given["throttle"]
            )
        if failed := alter_reassignments(admin, batch):
            partition, why = next(iter(failed.items()))
            raise CommandFailed(f"{partition} cannot be moved: {why}")
        click.echo(f"Batch {number} of {len(batches)}: {len(batch)} partitions")
        _wait_until_done(admin, batch, given["timeout"])
    leader_election.print_results(leader_election.elect(admin, "PREFERRED", list(moves)), "PREFERRED")


def _batches(
    moves: "Mapping[TopicPartition, Sequence[int]]", size: int
) -> "Iterator[dict[TopicPartition, Sequence[int]]]":
    entries = list(moves.items())
    for start in range(0, len(entries), size):
        yield dict(entries[start : start + size])


def _wait_until_done(admin: "Admin", batch: "Mapping[TopicPartition, Sequence[int]]", timeout_ms: int | None) -> None:
    from tidelog.cli.replicas.replica_requests import ongoing

    deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    while left := ongoing(admin).keys() & batch.keys():
        if deadline is not None and time.monotonic() >= deadline:
            raise CommandFailed(
                f"{len(left)} partitions are still moving; see tidelog reassign-partitions --list --progress."
            )
        time.sleep(POLL_S)
