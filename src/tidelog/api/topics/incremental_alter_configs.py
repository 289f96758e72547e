"""IncrementalAlterConfigs (44): options of topics and brokers set, deleted, appended to (KIP-339)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.cluster.incremental_alter_configs import IncrementalAlterConfigsRequest


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Handed:
    return hand_over(request, context)
