"""AlterClientQuotas (49): quotas of users, client ids and addresses set and removed (KIP-546, 612)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.cluster.alter_client_quotas import AlterClientQuotasRequest


def handle(request: AlterClientQuotasRequest, context: Context) -> Handed:
    return hand_over(request, context)
