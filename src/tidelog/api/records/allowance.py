"""How much one answer to a fetch may hold, for the broker and for the quota of the client."""

from tidelog.api.context import Context


def allowed_bytes(context: Context) -> int:
    most = context.broker.config.fetch_max_bytes
    if context.bill is None:
        return most
    within_quota = context.broker.quotas.most_to_fetch(context.bill.user, context.bill.client_id)
    return most if within_quota is None else min(most, within_quota)
