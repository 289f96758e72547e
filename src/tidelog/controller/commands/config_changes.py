"""Options below `/config` as others wrote them: Kafka 3's `kafka-configs --zookeeper`, other programs, or operators.

They write an entity's node, and then a notification below `/config/changes`. Brokers' mirrors follow it, and so does
the controller: it elects leaders, and keeps eligible leader replicas, by the options of topics. A change without a
notification has no effect before the next controller, as in Kafka 3.
"""

from collections.abc import Collection, Sequence
from typing import Any

from tidelog.controller import tree
from tidelog.controller.commands.configs import apply_options
from tidelog.controller.commands.elections import LogEnds
from tidelog.controller.commands.features import keep_min_insync
from tidelog.controller.config_values import read_values
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps, read_all, read_each
from tidelog.ports import Children, Node, Read


def load_configs(term: ControllerTerm) -> Steps[None]:
    """Read the options of all entities."""
    cluster = term.cluster
    *lists, changes = yield [
        *(Children(f"{tree.CONFIG}/{kind}") for kind in tree.CONFIGURED),
        Children(tree.CONFIG_CHANGES),
    ]
    entities = [f"{kind}/{name}" for kind, names in zip(tree.CONFIGURED, lists, strict=True) for name in names or ()]
    entities += yield from _clients_of_users(entities)
    cluster.configs.clear()
    cluster.config_versions.clear()
    yield from _read(term, entities)
    cluster.config_changes = tree.change_numbers(changes or ())


def notice_configs(term: ControllerTerm, logs: LogEnds) -> Steps[None]:
    """Read what notifications name that this controller did not write."""
    cluster = term.cluster
    (names,) = yield [Children(tree.CONFIG_CHANGES)]
    numbers = tree.change_numbers(names or ())
    found = tree.unseen(numbers, max(cluster.config_changes, default=-1))
    if not found.fresh and not found.missed:
        cluster.config_changes = numbers  # others may have removed some
        return
    if found.missed:
        yield from load_configs(term)
    else:
        notifications = yield from read_all([Read(tree.config_change_path(number)) for number in found.fresh])
        named = (tree.parse_config_change(node.data) for node in notifications if isinstance(node, Node))
        yield from _read(term, {entity for entity in named if entity is not None})
        cluster.config_changes = numbers
    yield from keep_min_insync(term)
    yield from apply_options(term, logs)


def _read(term: ControllerTerm, entities: Collection[str]) -> Steps[None]:
    cluster = term.cluster

    def take(entity: str, node: Any) -> None:
        cluster.configs.pop(entity, None)
        cluster.config_versions.pop(entity, None)
        if isinstance(node, Node):
            cluster.configs[entity] = read_values(entity, node.data)
            cluster.config_versions[entity] = node.version

    yield from read_each(sorted(entities), lambda entity: Read(f"{tree.CONFIG}/{entity}"), take)


def _clients_of_users(entities: Sequence[str]) -> Steps[list[str]]:
    """Quotas of a user's clients, and the nodes above them. Kafka 3 creates such a node before the first client's, in
    another write: it may have no children."""
    above = [f"{entity}/clients" for entity in entities if entity.startswith("users/")]
    lists = yield from read_all([Children(f"{tree.CONFIG}/{parent}") for parent in above])
    found = [f"{parent}/{name}" for parent, names in zip(above, lists, strict=True) for name in names or ()]
    return [*(parent for parent, names in zip(above, lists, strict=True) if names is not None), *found]
