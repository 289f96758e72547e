"""The mirror of the tree's `/config` on this broker: explicit values of topics and brokers, kept by a watch."""

from collections.abc import Callable, Sequence

from tidelog.controller import tree
from tidelog.ports import Children, Node, Operation, Read, StoreResult, Watch

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]


class ConfigMirror:
    """`submit` sends queries to the store and calls back within the node. `on_topic`/`on_broker` hear of changes."""

    def __init__(self, submit: Submit, *, on_topic: Callable[[str], None], on_broker: Callable[[], None]) -> None:
        self._submit = submit
        self._on_topic = on_topic
        self._on_broker = on_broker
        self._topics: dict[str, dict[str, str]] = {}
        self._brokers: dict[str, dict[str, str]] = {}
        self.ready = False

    def topic(self, name: str) -> dict[str, str]:
        return self._topics.get(name, {})

    def broker(self, broker_id: int | None) -> dict[str, str]:
        return self._brokers.get(tree.DEFAULT_ENTITY if broker_id is None else str(broker_id), {})

    def knows(self, topic: str) -> bool:
        return topic in self._topics

    def start(self) -> None:
        """Watch first, then read everything: a change in between is heard of."""
        queries = (Watch(tree.CONFIG), Children(tree.TOPIC_CONFIGS), Children(tree.BROKER_CONFIGS))
        self._submit(queries, self._listed)

    def _listed(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self.start()
            return
        topics, brokers = ([str(name) for name in _names(value)] for value in result.values[1:3])
        paths = [f"{tree.TOPIC_CONFIGS}/{name}" for name in topics] + [
            f"{tree.BROKER_CONFIGS}/{name}" for name in brokers
        ]

        def all_read() -> None:
            self.ready = True

        self.read(paths, all_read)

    def changed(self, path: str) -> None:
        """A store event below `/config`."""
        if path.startswith((f"{tree.TOPIC_CONFIGS}/", f"{tree.BROKER_CONFIGS}/")):
            self.read([path], lambda: None)

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

    def _take(self, path: str, node: Node | None) -> None:
        folder, _, entity = path.rpartition("/")
        known = self._topics if folder == tree.TOPIC_CONFIGS else self._brokers
        if node is None:
            known.pop(entity, None)
        else:
            known[entity] = tree.parse_config(node.data)
        if known is self._topics:
            self._on_topic(entity)
        else:
            self._on_broker()


def _names(value: object) -> Sequence[str]:
    return [] if value is None or isinstance(value, Node) else list(value)  # type: ignore[call-overload]
