"""Transactions and producers, for administrators.

- ListTransactions (key 66): the transactions that a broker coordinates.
- DescribeTransactions (key 65): state of transactions.
- DescribeProducers (key 61): the producers that a partition knows.
"""

from tidelog.wire.message import api, array, int16, int32, int64, message, string


@api(66)
class ListTransactionsRequest:
    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", default=None, nullable="0+")


@message
class TransactionListing:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@api(66)
class ListTransactionsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionListing] = array(TransactionListing)


@api(65)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = array(string)


@message
class TopicData:
    topic: str = string()
    partitions: list[int] = array(int32)


@message
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@api(65)
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)


@message
class TopicRequest:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@api(61)
class DescribeProducersRequest:
    topics: list[TopicRequest] = array(TopicRequest)


@message
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@message
class PartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState)


@message
class TopicResponse:
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@api(61)
class DescribeProducersResponse:
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
