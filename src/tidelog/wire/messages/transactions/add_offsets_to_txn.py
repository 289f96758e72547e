"""AddOffsetsToTxn (key 25): adding a group to a transaction."""

from tidelog.wire.message import api, int16, int32, int64, string


@api(25)
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@api(25)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
