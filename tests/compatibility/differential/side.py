"""One of the two brokers under the same script: asks, remembers the answers under labels, names what the broker made."""

from collections.abc import Callable
from typing import Any

from tests.compatibility.differential.comparison import Names, plain
from tests.compatibility.differential.wire import CLOSED, KEYS, SILENT, Connection
from tests.waiting import wait_for
from tidelog.api.registry import APIS

MUTE_AFTER_S = 1.0


class Side:
    """`answers` are what the script recorded: (label with API and version, plain answer)."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.names: Names = {}
        self.answers: list[tuple[str, Any]] = []
        self.asked: set[tuple[str, int]] = set()
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"Side({self.name}, port {self.port}, {len(self.answers)} answers)"

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self.port)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def quiet(self, api: str, version: int, **values: Any) -> Any:
        """Ask without recording: to set up what the script is about."""
        return self.connection.ask(api, version, **values)

    def ask(self, label: str, api: str, version: int, **values: Any) -> Any:
        """Ask, record, and return the answer as decoded; after a closed connection the next request opens one."""
        answer = self.connection.ask(api, version, **values)
        self.record(label, api, version, answer)
        return answer

    def both(self, label: str, api: str, *more: int, **values: Any) -> Any:
        """Ask in the oldest and the newest version served, and in `more`; the newest version's answer."""
        served = APIS[KEYS[api]]
        answer = None
        for version in sorted({served.low, *more, served.high}):
            answer = self.ask(label, api, version, **values)
        return answer

    def silent(self, label: str, api: str, version: int, **values: Any) -> None:
        """Send what must not be answered, and record what happens: since answers come in the order of requests, there
        is none where the next request is answered."""
        self.record(label, api, version, self.connection.unanswered(api, version, **values))

    def mute(self, label: str, api: str, version: int, **values: Any) -> None:
        """Send what Tidelog answers and Kafka never does, nor anything else on this connection."""
        self.connection.send(api, version, **values)
        patience = {} if self.name == "Tidelog" else {"within_s": MUTE_AFTER_S}
        self.record(label, api, version, self.connection.receive(**patience))
        self.close()

    def record(self, label: str, api: str, version: int, answer: Any) -> None:
        self.asked.add((api, version))
        self.note(f"{label} [{api} v{version}]", answer)

    def note(self, label: str, answer: Any) -> None:
        self.answers.append((label, answer if isinstance(answer, tuple) else plain(answer, self.names)))
        if isinstance(answer, str):
            self.close()

    def raw(self, label: str, data: bytes) -> None:
        """Bytes of any kind on a connection of their own: the answer's bytes, or that there is none."""
        connection = Connection(self.port)
        connection.socket.sendall(data)
        answer = connection.frame()
        self.answers.append((label, answer if answer in (CLOSED, SILENT) else bytes(answer)))
        connection.close()

    def raw_start(self, label: str, data: bytes, count: int) -> None:
        """As `raw`, of which only the first bytes can be the same."""
        self.raw(label, data)
        name, answer = self.answers.pop()
        self.answers.append((name, answer[:count] if isinstance(answer, bytes) else answer))

    def topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic and learn its id, once the broker leads all of it. Its records are of 2023, and 30 s after its
        start Kafka would delete them, in a slow run between two requests."""
        options = {"retention_ms": "-1", **configs}
        named = [{"name": key.replace("_", "."), "value": value} for key, value in options.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": named}
        created = self.quiet("CreateTopics", 7, topics=[topic], timeout_ms=20_000).topics[0]
        assert created.error_code == 0, (self, created)
        self.name_topic(name, created.topic_id)
        self.await_leaders(name)
        return bytes(created.topic_id)

    def await_option(self, kind: int, name: str, option: str, wanted: Callable[[Any], bool]) -> None:
        """A broker answers a change before it knows of it; `wanted` is asked of the option's description, or None."""
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [option]}

        def is_as_wanted() -> bool:
            found = self.quiet("DescribeConfigs", 4, resources=[resource]).results[0].configs
            return wanted(found[0] if found else None)

        wait_for(is_as_wanted, f"{self}: {option} of {name} as wanted")

    def name_topic(self, name: str, topic_id: bytes) -> None:
        self.names[bytes(topic_id)] = f"the id of {name}"

    def await_leaders(self, name: str) -> None:
        """Creation is answered before the partitions are opened."""

        def lead() -> bool:
            found = self.quiet("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics[0]
            if found.error_code or any(part.error_code for part in found.partitions):
                return False
            wanted = [{"partition_index": part.partition_index, "timestamp": -1} for part in found.partitions]
            ends = self.quiet("ListOffsets", 7, replica_id=-1, topics=[{"name": name, "partitions": wanted}])
            return not any(part.error_code for part in ends.topics[0].partitions)

        wait_for(lead, f"{self}: leaders of {name}")
