"""InitProducerId (22): an id for an idempotent producer (KIP-98), or the next epoch of a transactional id (KIP-360).

Ids come in blocks from the metadata tree. A transactional id may need one, so its request waits until there is one.
"""

from tidelog.api.context import Context, Pending
from tidelog.api.transactions.transaction_requests import fencing, submit
from tidelog.coordinator.transaction import InitProducerId, InitProducerIdResult
from tidelog.effects import Deferred, Signal
from tidelog.errors import ErrorCode
from tidelog.wire.messages.transactions.transaction_requests import InitProducerIdRequest, InitProducerIdResponse

WAIT_MS = 10_000
FENCED_SINCE = 4


def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse | Deferred | Pending:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refusal(ErrorCode.INVALID_REQUEST)
    deadline = context.now.mono + WAIT_MS
    if request.transactional_id is None:
        return _answer_with_id(context, deadline)
    if request.transactional_id == "":
        return _refusal(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= context.broker.config.transaction_max_timeout_ms:
        return _refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    init = InitProducerId(
        request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
    )
    return _begin(context, init, deadline)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _answer_with_id(context: Context, deadline: int) -> InitProducerIdResponse | Deferred:
    producer_id = context.broker.producer_ids.next_id()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    if context.now.mono >= deadline:
        return _refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return Deferred((Signal(("producer-ids",)),), deadline, _answer_with_id, (deadline,))


def _begin(context: Context, init: InitProducerId, deadline: int) -> Deferred | Pending:
    ids = context.broker.producer_ids
    if not ids.is_ready and context.now.mono < deadline:
        ids.fetch_block()
        return Deferred((Signal(("producer-ids",)),), deadline, _begin, (init, deadline))

    def finish(inited: InitProducerIdResult) -> InitProducerIdResponse:
        if inited.code:
            return _refusal(fencing(inited.code, context.version, FENCED_SINCE))
        return InitProducerIdResponse(producer_id=inited.producer_id, producer_epoch=inited.epoch)

    return submit(init, context, finish)
