"""InitProducerId (22): an id for an idempotent producer (KIP-98); ids come in blocks from the metadata tree."""

from tidelog.api.context import Context
from tidelog.effects import Later, Signal
from tidelog.errors import ErrorCode
from tidelog.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

WAIT_MS = 10_000


def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse | Later:
    if request.transactional_id == "":
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refusal(ErrorCode.INVALID_REQUEST)
    return _give(context, context.now.mono + WAIT_MS)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _give(context: Context, deadline: int) -> InitProducerIdResponse | Later:
    producer_id = context.broker.producer_ids.give()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    if context.now.mono >= deadline:
        return _refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return Later((Signal(("producer-ids",)),), deadline, _give, (deadline,))
