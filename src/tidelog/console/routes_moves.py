"""Moves of replicas: those in progress, a plan as before and after, start and cancel."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from tidelog.cli.options import CommandFailed
from tidelog.cli.replicas.balanced_layout import BrokerLoad, broker_loads, even_layout
from tidelog.cli.replicas.reassignment_actions import alter_reassignments, missing_bytes
from tidelog.cli.replicas.rebalance import current_layout
from tidelog.cli.replicas.replica_requests import ongoing, replicas_of
from tidelog.cli.replicas.replication_throttles import clear, copy_paths, throttle
from tidelog.console.console import MOST_NUMBER, Console, Query, Refused, partition_in, whole_number
from tidelog.console.routes_topics import confirm
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin

MOST_MOVES = 500
NOTHING = BrokerLoad(0, 0, 0)
CONFIRM = "move"

Layout = dict[TopicPartition, list[int]]


async def moves_live(console: Console, _query: Query) -> Any:
    return await console.blocking(_moves, console.bridged)


def _moves(admin: Admin) -> Any:
    running = ongoing(admin, 5_000)
    left = missing_bytes(admin, running) if running else {}
    return {
        "rows": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "replicas": move.replicas,
                "adding": move.adding,
                "removing": move.removing,
                "left": left.get(name, 0),
            }
            for name, move in running.items()
        ]
    }


async def plan(console: Console, query: Query) -> Any:
    """What would move: an even load on the brokers, or the replicas that the person wants for some partitions."""
    if query.has("replicas"):
        topic = query.text("topic")
        console.topic(topic)
        wanted = _brokers(query.text("replicas"))
        numbers = [query.number("partition", least=0)] if query.has("partition") else None
        return await console.blocking(_plan_by_hand, console.bridged, topic, numbers, wanted)
    given = {"topic": query.text("topic", "") or None, "broker_list": query.text("brokers", "") or None}
    return await console.blocking(_plan_even, console.bridged, given)


def _brokers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, f"replicas: {text!r} is not a list of brokers, as 0,1,2.") from None


def _plan_even(admin: Admin, given: Mapping[str, Any]) -> Any:
    current, sizes, racks = current_layout(admin, given)
    return _shown(current, even_layout(current, sizes, racks), sizes)


def _plan_by_hand(admin: Admin, topic: str, numbers: Sequence[int] | None, wanted: Sequence[int]) -> Any:
    current, sizes, known = current_layout(admin, {"topic": None, "broker_list": None})
    if unknown := [broker for broker in wanted if broker not in known]:
        raise CommandFailed(f"Broker {unknown[0]} does not exist.")
    chosen = [p for p in current if p.topic == topic and (numbers is None or p.partition in numbers)]
    if not chosen:
        raise CommandFailed(f"Topic {topic} has no partition {numbers}.")
    # Leadership is spread: each partition's list begins with another broker.
    after = {p: list(wanted[i % len(wanted) :]) + list(wanted[: i % len(wanted)]) for i, p in enumerate(chosen)}
    if numbers is not None:
        after = {each: list(wanted) for each in chosen}
    return _shown(current, {**current, **after}, sizes)


def _shown(before: Layout, after: Mapping[TopicPartition, Sequence[int]], sizes: Mapping[TopicPartition, int]) -> Any:
    changed = [each for each in sorted(before) if list(after[each]) != before[each]]
    old, new = broker_loads(before, sizes), broker_loads(after, sizes)
    return {
        "rows": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "before": before[each],
                "after": list(after[each]),
                "bytes": sizes.get(each, 0) * len(set(after[each]) - set(before[each])),
            }
            for each in changed[:MOST_MOVES]
        ],
        "more": max(0, len(changed) - MOST_MOVES),
        "brokers": [
            {"id": broker, "before": list(old.get(broker, NOTHING)), "after": list(new.get(broker, NOTHING))}
            for broker in sorted({*old, *new})
        ],
    }


async def start(console: Console, query: Query) -> Any:
    """Start exactly the moves of a plan, with a limit for copying if there is one."""
    confirm(query, CONFIRM)
    try:
        wanted = {
            partition_in(row): [whole_number("after", broker, 0, MOST_NUMBER) for broker in row["after"]]
            for row in query.sequence("rows")
        }
    except (KeyError, TypeError):
        raise Refused(HTTPStatus.BAD_REQUEST, "rows: expected topic, partition and after in each.") from None
    rate = query.number("throttle", least=1) if query.has("throttle") else None
    await console.blocking(_start, console.bridged, wanted, rate)
    await console.observer.refresh()
    return {}


def _start(admin: Admin, wanted: Mapping[TopicPartition, Sequence[int]], rate: int | None) -> None:
    if rate is not None:
        present = replicas_of(admin, (topic for topic, _ in wanted))
        throttle(admin, copy_paths(ongoing(admin), wanted, present), rate)
    _refuse(alter_reassignments(admin, wanted))


def _refuse(failed: Mapping[TopicPartition, str]) -> None:
    if failed:
        partition, why = next(iter(failed.items()))
        raise CommandFailed(f"{partition}: {why}")


async def cancel(console: Console, query: Query) -> Any:
    """Cancel the moves in progress, and lift their limits."""
    confirm(query, CONFIRM)
    await console.blocking(_cancel, console.bridged)
    await console.observer.refresh()
    return {}


def _cancel(admin: Admin) -> None:
    running = ongoing(admin)
    _refuse(alter_reassignments(admin, dict.fromkeys(running)))
    clear(admin, {name: move.replicas for name, move in running.items()})
