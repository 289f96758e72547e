"""Records of `__transaction_state`."""

from tidelog.wire.message import array, data, int8, int16, int32, int64, message, string


@data("0", record=0)
class TransactionLogKey:
    transactional_id: str = string()


@message
class PartitionsSchema:
    topic: str = string()
    partition_ids: list[int] = array(int32)


@data("0-1", flexible="1+")
class TransactionLogValue:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
