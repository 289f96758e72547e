"""The mirror of the tree's `/config` on this broker: explicit values of topics and brokers, kept by a watch.

The watch tells only that something changed at or below `/config`. What it was is told by the entities that came and
went, and by the notifications below `/config/changes`, of which only the latest are kept: after a gap all is read.
A topic that is deleted and created again between two looks is not told so; whoever gets a replica of it reads it anew.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidelog.controller import tree
from tidelog.ports import Children, Node, Operation, Read, StoreResult, Watch

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]

_LOOK: Sequence[Operation] = (
    Watch(tree.CONFIG),  # first, so that a change after the lists is heard of
    Children(tree.TOPIC_CONFIGS),
    Children(tree.BROKER_CONFIGS),
    Children(tree.CONFIG_CHANGES),
)


class ConfigMirror:
    """`submit` sends queries to the store and calls back within the node. `on_topic`/`on_broker` hear of changes."""

    def __init__(self, submit: Submit, *, on_topic: Callable[[str], None], on_broker: Callable[[], None]) -> None:
        self._submit = submit
        self._on_topic = on_topic
        self._on_broker = on_broker
        self._topics: dict[str, dict[str, str]] = {}
        self._brokers: dict[str, dict[str, str]] = {}
        self._seen = -1
        """The latest notification that is reflected here."""
        self._read_all = True
        self._looking = self._look_again = False

    def __repr__(self) -> str:
        return f"<configs of {len(self._topics)} topics, {len(self._brokers)} brokers, seen {self._seen}>"

    def topic(self, name: str) -> dict[str, str]:
        return self._topics.get(name, {})

    def broker(self, broker_id: int | None) -> dict[str, str]:
        return self._brokers.get(tree.DEFAULT_ENTITY if broker_id is None else str(broker_id), {})

    def start(self) -> None:
        """A session began: what happened since the last one was not heard of."""
        self._read_all = True
        self.changed(tree.CONFIG)

    def changed(self, path: str) -> None:
        """A store event: something changed at or below `path`."""
        if path != tree.CONFIG:
            return
        if self._looking:
            self._look_again = True
        else:
            self._look()

    def read(self, paths: Sequence[str], then: Callable[[], None]) -> None:
        """Read these entities' nodes into the mirror, then go on."""
        if not paths:
            then()
            return

        def take(result: StoreResult) -> None:
            if result.outcome == "unknown":
                self._submit([Read(path) for path in paths], take)
                return
            for path, value in zip(paths, result.values, strict=True):
                self._take(path, value if isinstance(value, Node) else None)
            then()

        self._submit([Read(path) for path in paths], take)

    def _look(self) -> None:
        self._looking, self._look_again = True, False
        self._submit(_LOOK, self._listed)

    def _listed(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self._look()
            return
        topics, brokers, changes = (_names(value) for value in result.values[1:])
        there = {tree.topic_config_path(name) for name in topics} | {tree.broker_config_path(name) for name in brokers}
        known = self._known()
        for path in known - there:
            self._take(path, None)
        numbers = sorted(tree.config_change_number(name) for name in changes)
        fresh = [number for number in numbers if number > self._seen]
        if self._read_all or (fresh and fresh[0] != self._seen + 1):
            self._read_all = False
            self._finish(there, numbers)
        else:
            self._read_notified([tree.config_change_path(number) for number in fresh], there, known, numbers)

    def _read_notified(self, notifications: list[str], there: set[str], known: set[str], numbers: list[int]) -> None:
        """Read what the notifications name, and what is new."""

        def named(result: StoreResult) -> None:
            if any(not isinstance(value, Node) for value in result.values) or result.outcome != "ok":
                self._read_all = True  # a notification went while we looked
                self._look()
                return
            entities = [tree.parse_config_change(value.data) for value in result.values if isinstance(value, Node)]
            self._finish((there - known) | {f"{tree.CONFIG}/{entity}" for entity in entities}, numbers)

        if notifications:
            self._submit([Read(path) for path in notifications], named)
        else:
            self._finish(there - known, numbers)

    def _finish(self, paths: Iterable[str], numbers: Sequence[int]) -> None:
        def done() -> None:
            self._seen = max([self._seen, *numbers])
            self._looking = False
            if self._look_again:
                self._look()

        self.read(sorted(paths), done)

    def _known(self) -> set[str]:
        topics = {tree.topic_config_path(name) for name in self._topics}
        return topics | {f"{tree.BROKER_CONFIGS}/{name}" for name in self._brokers}

    def _take(self, path: str, node: Node | None) -> None:
        folder, _, entity = path.rpartition("/")
        known = self._topics if folder == tree.TOPIC_CONFIGS else self._brokers
        before = known.pop(entity, {})
        if node is not None:
            known[entity] = tree.parse_config(node.data)
        if known.get(entity, {}) == before:
            return
        if known is self._topics:
            self._on_topic(entity)
        else:
            self._on_broker()


def _names(value: Any) -> Sequence[str]:
    return [] if value is None else [str(name) for name in value]
