"""EndTxn (26): commit or abort. From version 5 on the answer has the epoch for the next transaction (KIP-890)."""

from tidelog.api.context import Context, Pending
from tidelog.api.transactions.to_transaction_coordinator import fencing, submit
from tidelog.coordinator.transaction import Ended, EndTransaction
from tidelog.errors import ErrorCode
from tidelog.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2
VERSION_2_SINCE = 5


def handle(request: EndTxnRequest, context: Context) -> EndTxnResponse | Pending:
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        commit=request.committed,
        version=2 if context.version >= VERSION_2_SINCE else 0,
    )

    def finish(ended: Ended) -> EndTxnResponse:
        code = fencing(ended.code, context.version, FENCED_SINCE)
        return EndTxnResponse(error_code=code, producer_id=ended.producer_id, producer_epoch=ended.epoch)

    return submit(asked, context, finish)
