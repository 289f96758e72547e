"""AlterClientQuotas (49): quotas of users, client ids and addresses set and removed (KIP-546, 612)."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.cluster.alter_client_quotas import AlterClientQuotasRequest


def handle(request: AlterClientQuotasRequest, context: Context) -> Pending:
    return submit(request, context)
