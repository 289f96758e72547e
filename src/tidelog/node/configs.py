"""The mirror of the tree's `/config` on this broker: explicit values of every entity, kept by a watch.

The watch fires when anything changes at or below `/config`. What changed follows from the entities that were added or
removed, and from the notifications below `/config/changes`, of which only the latest are kept: after a gap everything
is read. A topic that is deleted and created again between two reads is not noticed; a broker that gets a replica of it
reads its options again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from tidelog.config.quotas import Entity, entity_at, node_name
from tidelog.controller import tree
from tidelog.controller.config_values import read_values
from tidelog.ports import Children, Node, Operation, Read, StoreResult, Watch

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]

_QUERIES: Sequence[Operation] = (
    Watch(tree.CONFIG),  # first, so that a change after the lists is noticed
    Children(tree.CONFIG_CHANGES),
    *(Children(f"{tree.CONFIG}/{kind}") for kind in tree.CONFIGURED),
)
_QUOTAS = ("users", "clients", "ips")
_WITHOUT_NOTIFICATION = ("topics", "brokers")
"""Entities that are added and removed without a notification; the others are created with one, and stay."""


class ConfigMirror:
    """`submit` sends queries to the store and calls back within the node.

    `on_topic`, `on_broker` and `on_quotas` are called on changes; a group's options are looked up when they are needed.
    """

    def __init__(
        self,
        submit: Submit,
        *,
        on_topic: Callable[[str], None],
        on_broker: Callable[[], None],
        on_quotas: Callable[[], None],
    ) -> None:
        self._submit = submit
        self._on_topic = on_topic
        self._on_broker = on_broker
        self._on_quotas = on_quotas
        self._values: dict[str, dict[str, str]] = {}
        """By the entity's path below `/config`."""
        self._seen = -1
        """The latest notification that is reflected here."""
        self._read_all = True
        self._is_reading = self._read_again = self._quotas_changed = False

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

    def quotas(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        """Every entity that has quotas."""
        for path in self._values:
            found = self.quota(path)
            if found is not None:
                yield found

    def entities(self) -> list[str]:
        """The paths of all entities that have values."""
        return list(self._values)

    def quota(self, path: str) -> tuple[Entity, Mapping[str, float]] | None:
        """The quotas of the entity at this path, if it is one that may have quotas."""
        entity, values = entity_at(path), self._values.get(path)
        return (entity, _numbers(values)) if entity and values else None

    def start(self) -> None:
        """A session began: changes since the last one were missed."""
        self._read_all = True
        self.changed(tree.CONFIG)

    def changed(self, path: str) -> None:
        """A store event: something changed at or below `path`."""
        if path != tree.CONFIG:
            return
        if self._is_reading:
            self._read_again = True
        else:
            self._read_changes()

    def read(self, paths: Sequence[str], then: Callable[[], None]) -> None:
        """Read these entities' nodes into the mirror, then call `then`."""
        if not paths:
            then()
            return

        def take(result: StoreResult) -> None:
            if result.outcome == "unknown":
                self._submit([Read(path) for path in paths], take)
                return
            for path, value in zip(paths, result.values, strict=True):
                self._take(path.removeprefix(f"{tree.CONFIG}/"), value if isinstance(value, Node) else None)
            then()

        self._submit([Read(path) for path in paths], take)

    def _read_changes(self) -> None:
        self._is_reading, self._read_again = True, False
        self._submit(_QUERIES, self._listed)

    def _listed(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self._read_changes()
            return
        changes, *lists = (names_of(value) for value in result.values[1:])
        listed = {
            kind: {f"{kind}/{name}" for name in found} for kind, found in zip(tree.CONFIGURED, lists, strict=True)
        }
        existing = {entity for kind in _WITHOUT_NOTIFICATION for entity in listed[kind]}
        known = {entity for entity in self._values if entity.startswith(_WITHOUT_NOTIFICATION)}
        for entity in known - existing:
            self._take(entity, None)
        numbers = tree.change_numbers(changes)
        fresh, missed, self._seen = tree.unseen(numbers, self._seen)
        if self._read_all or missed:
            self._read_all = False
            self._read_everything(set().union(*listed.values()), sorted(listed["users"]), numbers)
        else:
            self._read_notified([tree.config_change_path(number) for number in fresh], existing - known, numbers)

    def _read_everything(self, existing: set[str], users: Sequence[str], numbers: list[int]) -> None:
        """Read everything listed, and the quotas of users' clients, which are one level deeper."""

        def listed(result: StoreResult) -> None:
            if result.outcome != "ok":
                self._read_all = True
                self._read_changes()
                return
            found = {
                f"{user}/clients/{name}"
                for user, value in zip(users, result.values, strict=True)
                for name in names_of(value)
            }
            for entity in [entity for entity in self._values if entity not in existing | found]:
                self._take(entity, None)
            self._finish(existing | found, numbers)

        if users:
            self._submit([Children(f"{tree.CONFIG}/{user}/clients") for user in users], listed)
        else:
            listed(StoreResult("ok"))

    def _read_notified(self, notifications: list[str], new: set[str], numbers: list[int]) -> None:
        """Read the entities that the notifications name, and new ones."""

        def named(result: StoreResult) -> None:
            if any(not isinstance(value, Node) for value in result.values) or result.outcome != "ok":
                self._read_all = True  # a notification went while we looked
                self._read_changes()
                return
            entities = {tree.parse_config_change(value.data) for value in result.values if isinstance(value, Node)}
            self._finish(new | {entity for entity in entities if entity is not None}, numbers)

        if notifications:
            self._submit([Read(path) for path in notifications], named)
        else:
            self._finish(new, numbers)

    def _finish(self, entities: Iterable[str], numbers: Sequence[int]) -> None:
        def done() -> None:
            self._seen = numbers[-1] if numbers else -1
            self._is_reading = False
            if self._quotas_changed:
                self._quotas_changed = False
                self._on_quotas()
            if self._read_again:
                self._read_changes()

        self.read(sorted(f"{tree.CONFIG}/{entity}" for entity in entities), done)

    def _take(self, entity: str, node: Node | None) -> None:
        before = self._values.pop(entity, {})
        if node is not None:
            self._values[entity] = read_values(entity, node.data)
        if self._values.get(entity, {}) == before:
            return
        kind, _, name = entity.partition("/")
        if kind == "topics":
            self._on_topic(name)
        elif kind == "brokers":
            self._on_broker()
        elif kind in _QUOTAS:
            self._quotas_changed = True  # reported once, when everything is read


def names_of(value: Any) -> Sequence[str]:
    return [] if value is None else [str(name) for name in value]


def _numbers(values: Mapping[str, str]) -> dict[str, float]:
    """Values that are not numbers, which an operator wrote into the tree by hand, are ignored."""
    found = {}
    for name, text in values.items():
        with suppress(ValueError):
            found[name] = float(text)
    return found
