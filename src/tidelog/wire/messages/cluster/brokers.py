"""The brokers of a cluster.

- BrokerReport (key 10000): what a broker remembers and holds for `tidelog explain`. Not an API of Kafka's.
- DescribeCluster (key 60): cluster id, controller and brokers.
- ControlledShutdown (key 7): a broker asks the controller to move its leaders away.
- UnregisterBroker (key 64): forgetting a broker.
"""

from tidelog.wire.message import api, array, boolean, int8, int16, int32, int64, message, string


@api(10000)
class BrokerReportRequest:
    """`since` is the number of the first event wanted; `subject` a partition, or None for the events of all."""

    since: int = int64()
    subject: str | None = string(default=None, nullable="0+")


@message
class ReportedEvent:
    """`wall_ms` is the broker's clock, `fields` a JSON object."""

    number: int = int64()
    wall_ms: int = int64()
    kind: str = string()
    level: str = string()
    fields: str = string()


@api(10000)
class BrokerReportResponse:
    """`forgotten` counts events that were too old to keep; `facts` is a JSON object."""

    error_code: int = int16()
    broker_id: int = int32()
    wall_ms: int = int64()
    forgotten: int = int64()
    events: list[ReportedEvent] = array(ReportedEvent)
    facts: str = string()


@api(60)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@message
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="0+")
    is_fenced: bool = boolean("2+")


@api(60)
class DescribeClusterResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)


@api(7)
class ControlledShutdownRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message
class RemainingPartition:
    topic_name: str = string()
    partition_index: int = int32()


@api(7)
class ControlledShutdownResponse:
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)


@api(64)
class UnregisterBrokerRequest:
    broker_id: int = int32()


@api(64)
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
