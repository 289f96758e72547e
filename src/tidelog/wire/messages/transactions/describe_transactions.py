"""DescribeTransactions (key 65): state of transactions."""

from tidelog.wire.message import api, array, int16, int32, int64, message, string


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
