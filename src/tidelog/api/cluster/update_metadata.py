"""UpdateMetadata (6), inter-broker: the controller says what the cluster is."""

from tidelog.api.context import Context
from tidelog.wire.messages.cluster.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def handle(request: UpdateMetadataRequest, context: Context) -> UpdateMetadataResponse:
    code = context.broker.check_controller(request)
    if not code:
        context.broker.take_metadata(request, context.now)
    return UpdateMetadataResponse(error_code=code)
