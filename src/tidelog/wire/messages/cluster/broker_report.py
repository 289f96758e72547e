"""BrokerReport (key 10000): what a broker remembers and holds for `tidelog explain`. Not an API of Kafka's."""

from tidelog.wire.message import api, array, int16, int32, int64, message, string


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
