"""Throttles that were set for a reassignment are removed with it (KIP-73).

`leader.` and `follower.replication.throttled.replicas` of a topic name the replicas of a move as partition:broker. When
the partition's move has ended its entries are removed, and with the last list of the cluster the brokers' rates. A list
that an operator set to `*` stays, and keeps the rates.
"""

from collections.abc import Collection, Mapping

from tidelog.config.alter import BROKER, TOPIC
from tidelog.config.quotas import LISTS, RATES
from tidelog.controller.commands.configs import Alteration, write
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.controller.state import Partition


def release(term: ControllerTerm, moved: Mapping[Partition, Collection[int]]) -> Steps[None]:
    """Moves of these partitions ended, between these brokers."""
    over: dict[str, set[str]] = {}
    for partition, brokers in moved.items():
        over.setdefault(partition.topic.name, set()).update(f"{partition.index}:{broker}" for broker in brokers)
    lists = []
    for topic, entries in over.items():
        options = term.cluster.configs.get(f"topics/{topic}", {})
        if (left := _without(options, entries)) != options:
            lists.append(Alteration(TOPIC, topic, f"topics/{topic}", left))
    if lists:
        yield from write(term, lists)
        yield from _release_rates(term)


def _without(options: Mapping[str, str], over: Collection[str]) -> dict[str, str]:
    kept = dict(options)
    for name in LISTS:
        if name in kept:
            entries = [entry.strip() for entry in kept[name].split(",")]
            left = [entry for entry in entries if entry not in over]
            if len(left) < len(entries):
                kept[name] = ",".join(left)
            if not left:
                del kept[name]
    return kept


def _release_rates(term: ControllerTerm) -> Steps[None]:
    configs = term.cluster.configs
    if any(options.get(name) for options in configs.values() for name in LISTS):
        return
    freed = [
        Alteration(
            BROKER,
            entity.removeprefix("brokers/"),
            entity,
            {name: value for name, value in options.items() if name not in RATES},
        )
        for entity, options in configs.items()
        if entity.removeprefix("brokers/").isdecimal() and any(name in options for name in RATES)
    ]
    if freed:
        yield from write(term, freed)
