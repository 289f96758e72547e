"""ControlledShutdown (key 7): a broker asks the controller to move its leaders away."""

from tidelog.wire.message import api, array, int16, int32, int64, message, string


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
