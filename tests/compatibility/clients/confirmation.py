"""Whether a cluster bears out what a client's program reports: Tidelog's own clients look at what the program left."""

from collections.abc import Callable, Iterable

from tests.spark.records import led
from tests.waiting import wait_for
from tidelog.client.admin import Coordinator
from tidelog.errors import ErrorCode
from tidelog.shell.transport import Admin, Consumer
from tidelog.wire import records
from tidelog.wire.compression import Compression
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

TOPIC = 2
"""The type of a resource, in requests for configurations."""


class Left:
    """What the program with this prefix left in a cluster."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap, self._prefix = bootstrap, prefix

    def prepare(self, features: Iterable[str]) -> None:
        """Create the topics that a program uses."""
        names = [f"{self._prefix}-{feature}" for feature in features]
        wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=-1) for name in names]
        with Admin(self._bootstrap) as admin:
            for made in admin.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000)).topics:
                assert made.error_code == ErrorCode.NONE, made
        for name in names:
            led(self._bootstrap, name)

    def assert_confirmed(self, feature: str) -> None:
        """Fail if the cluster does not show the feature."""
        CONFIRMED[feature](self)

    def batches(self, feature: str) -> list[records.BatchHeader]:
        topic = (f"{self._prefix}-{feature}", 0)
        found: list[records.BatchHeader] = []
        with Consumer(self._bootstrap, isolation_level="read_uncommitted") as consumer:
            consumer.assign([topic])
            consumer.seek_to_beginning([topic])
            (end,) = consumer.end_offsets([topic]).values()
            while not found or found[-1].next_offset < end:
                fetched = consumer.poll_whole(60)
                assert fetched, f"{topic} ends at {end}; read {found}"
                found += [batch for each in fetched for batch in records.batches(each.raw)]
        return found

    def records(self) -> None:
        assert sum(batch.count for batch in self.batches("records")) == 1

    def codec(self, codec: Compression) -> None:
        assert {batch.compression for batch in self.batches(codec.name.lower())} == {codec}

    def idempotence(self) -> None:
        batches = self.batches("idempotence")
        assert all(batch.producer_id >= 0 and batch.base_sequence >= 0 for batch in batches), batches

    def transactions(self) -> None:
        batches = self.batches("transactions")
        assert all(batch.is_transactional for batch in batches), batches
        assert sum(batch.is_control for batch in batches) == 2, batches

    def group(self, feature: str, kind: str) -> None:
        name = f"{self._prefix}-{feature}"
        with Admin(self._bootstrap) as admin:
            listed = admin.ask(ListGroupsRequest(), Coordinator(name)).groups
        assert [each.group_type for each in listed if each.group_id == name] == [kind]
        with Consumer(self._bootstrap, group=name) as consumer:
            assert [each.offset for each in consumer.committed([(name, 0)]).values()] == [3]

    def topics(self) -> None:
        made, gone = (f"{self._prefix}-{end}" for end in ("made", "gone"))

        def partitions() -> dict[str, int]:
            with Admin(self._bootstrap) as admin:
                found = admin.ask(MetadataRequest(topics=None)).topics
            return {each.name: len(each.partitions) for each in found if each.name in (made, gone)}

        wait_for(lambda: partitions() == {made: 2}, f"{made} and not {gone}")

    def configs(self) -> None:
        name = f"{self._prefix}-configs"
        wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"])

        def is_set() -> bool:
            with Admin(self._bootstrap) as admin:
                (found,) = admin.ask(DescribeConfigsRequest(resources=[wanted])).results
            return [each.value for each in found.configs] == ["60000"]

        wait_for(is_set, f"retention.ms of {name}")


CONFIRMED: dict[str, Callable[[Left], None]] = {
    "records": Left.records,
    "gzip": lambda left: left.codec(Compression.GZIP),
    "snappy": lambda left: left.codec(Compression.SNAPPY),
    "lz4": lambda left: left.codec(Compression.LZ4),
    "zstd": lambda left: left.codec(Compression.ZSTD),
    "groups": lambda left: left.group("groups", "classic"),
    "groups-848": lambda left: left.group("groups-848", "consumer"),
    "idempotence": Left.idempotence,
    "transactions": Left.transactions,
    "topics": Left.topics,
    "configs": Left.configs,
}
"""How each feature shows."""
