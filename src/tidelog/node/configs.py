"""The mirror of the tree's `/config` on this broker: explicit values of every entity.

What changed follows from the entities that were added or removed, and from the notifications. A topic that is deleted
and created again between two reads is not noticed; a broker that gets a replica of it reads its options again.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import unquote

from tidelog.config.quotas import Entity, entity_at, node_name
from tidelog.controller import tree
from tidelog.controller.config_values import read_values
from tidelog.node.mirror import Mirror, Steps, Submit, asked, names_of
from tidelog.ports import Children, Node

_QUOTAS = ("users", "clients", "ips")
_WITHOUT_NOTIFICATION = ("topics", "brokers")
"""Entities that are added and removed without a notification; the others are created with one, and stay."""


class ConfigMirror(Mirror[str]):
    """`on_topic`, `on_broker` and `on_quota` are called on changes, `on_quotas` after all changes of quotas that were
    read together; a group's options are looked up when needed."""

    watched = (tree.CONFIG,)
    changes = (tree.CONFIG_CHANGES,)
    lists = tuple(f"{tree.CONFIG}/{kind}" for kind in tree.CONFIGURED)

    def __init__(
        self,
        submit: Submit,
        *,
        on_topic: Callable[[str], None],
        on_broker: Callable[[], None],
        on_quota: Callable[[Entity, Mapping[str, float]], None],
        on_quotas: Callable[[], None],
    ) -> None:
        super().__init__(submit)
        self._on_topic = on_topic
        self._on_broker = on_broker
        self._on_quota = on_quota
        self._on_quotas = on_quotas
        self._values: dict[str, dict[str, str]] = {}
        """By the entity's path below `/config`."""
        self._quotas_changed = False
        self._existing: dict[str, set[str]] = {}
        """The entities that are listed, by kind."""
        self._new: set[str] = set()

    def __repr__(self) -> str:
        return f"<configs of {len(self._values)} entities, seen {self._seen}>"

    def topic(self, name: str) -> dict[str, str]:
        return self._values.get(f"topics/{name}", {})

    def broker(self, broker_id: int | None) -> dict[str, str]:
        return self._values.get(f"brokers/{tree.DEFAULT_ENTITY if broker_id is None else broker_id}", {})

    def user(self, name: str) -> dict[str, str]:
        """The user's quotas, and SCRAM credentials by mechanism."""
        return self._values.get(f"users/{node_name(name)}", {})

    def users(self) -> list[str]:
        """The users that have values."""
        places = [place for place, values in self._values.items() if values and place.startswith("users/")]
        return [unquote(place.removeprefix("users/")) for place in places if "/clients/" not in place]

    def group(self, name: str) -> dict[str, str]:
        return self._values.get(f"groups/{node_name(name)}", {})

    def groups(self) -> list[str]:
        """The groups that have options of their own."""
        entities = [entity for entity, values in self._values.items() if values and entity.startswith("groups/")]
        return [unquote(entity.partition("/")[2]) for entity in entities]

    def entities(self) -> list[str]:
        """The paths of all entities that have values."""
        return list(self._values)

    def quota(self, path: str) -> tuple[Entity, Mapping[str, float]] | None:
        """The quotas of the entity at this path, if it is one that may have quotas."""
        entity, values = entity_at(path), self._values.get(path)
        return (entity, _numbers(values)) if entity and values else None

    def read(self, paths: Sequence[str], then: Callable[[], None]) -> None:
        """Read these entities' nodes into the mirror, then call `then`."""

        def steps() -> Steps[None]:
            yield from self._read_nodes([path.removeprefix(f"{tree.CONFIG}/") for path in paths])
            then()

        self._run(steps())

    def _change_path(self, changes: str, number: int) -> str:  # noqa: ARG002 (there is only one)
        return tree.config_change_path(number)

    def _listed(self, lists: Sequence[Sequence[str]]) -> None:
        listed = {
            kind: {f"{kind}/{name}" for name in found} for kind, found in zip(tree.CONFIGURED, lists, strict=True)
        }
        existing = {entity for kind in _WITHOUT_NOTIFICATION for entity in listed[kind]}
        known = {entity for entity in self._values if entity.startswith(_WITHOUT_NOTIFICATION)}
        for entity in known - existing:
            self._take(entity, None)
        self._existing, self._new = listed, existing - known

    def _wanted(self, named: Sequence[tuple[str, bytes]] | None) -> Steps[Sequence[str]]:
        if named is None:
            existing = set().union(*self._existing.values()) | (yield from self._clients_of_users())
            for entity in [entity for entity in self._values if entity not in existing]:
                self._take(entity, None)
            return sorted(existing)
        entities = {tree.parse_config_change(data) for _, data in named}
        return sorted(self._new | {entity for entity in entities if entity is not None})

    def _clients_of_users(self) -> Steps[set[str]]:
        """The quotas of users' clients, which are one level deeper."""
        users = sorted(self._existing["users"])
        if not users:
            return set()
        lists = yield from asked([Children(f"{tree.CONFIG}/{user}/clients") for user in users])
        return {f"{user}/clients/{name}" for user, names in zip(users, lists, strict=True) for name in names_of(names)}

    def _path(self, name: str) -> str:
        return f"{tree.CONFIG}/{name}"

    def _finished(self) -> None:
        if self._quotas_changed:
            self._quotas_changed = False
            self._on_quotas()

    def _take(self, name: str, node: Node | None) -> None:
        before = self._values.pop(name, {})
        if node is not None:
            self._values[name] = read_values(name, node.data)
        if self._values.get(name, {}) == before:
            return
        kind, _, rest = name.partition("/")
        if kind == "topics":
            self._on_topic(rest)
        elif kind == "brokers":
            self._on_broker()
        elif kind in _QUOTAS:
            entity = entity_at(name)
            if entity:
                self._on_quota(entity, _numbers(self._values.get(name, {})))
            self._quotas_changed = True  # reported once, when everything is read


def _numbers(values: Mapping[str, str]) -> dict[str, float]:
    """Values that are not numbers, which an operator wrote into the tree by hand, are ignored."""
    found = {}
    for name, text in values.items():
        with suppress(ValueError):
            found[name] = float(text)
    return found
