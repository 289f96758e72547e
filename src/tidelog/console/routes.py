"""Everything that a page may ask for. `changes` are refused without `--allow-changes`, and are asked with POST."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tidelog.console import (
    routes_access,
    routes_cluster,
    routes_groups,
    routes_messages,
    routes_moves,
    routes_topics,
    routes_transactions,
    story,
)
from tidelog.console.console import Console, Query
from tidelog.console.safety import MAX_BODY_BYTES

Handler = Callable[[Console, Query], Awaitable[Any]]

BODY_BYTES = 2 * 1024 * 1024
"""What a request may send: enough for a plan of 10,000 partitions, and parsed without holding up other pages."""


class Route(NamedTuple):
    handler: Handler
    changes: bool = False
    most_bytes: int = BODY_BYTES


ROUTES: dict[str, Route] = {
    "session": Route(routes_cluster.session),
    "live": Route(routes_cluster.live),
    "overview": Route(routes_cluster.overview),
    "why": Route(routes_cluster.why),
    "topics": Route(routes_topics.topics_live),
    "topic": Route(routes_topics.topic),
    "configs": Route(routes_topics.configs),
    "configs/alter": Route(routes_topics.alter, changes=True),
    "topics/create": Route(routes_topics.create, changes=True),
    "topics/partitions": Route(routes_topics.add_partitions, changes=True),
    "topics/delete": Route(routes_topics.delete, changes=True),
    "messages": Route(routes_messages.messages),
    "message": Route(routes_messages.message),
    "message/download": Route(routes_messages.download),
    "messages/search": Route(routes_messages.search),
    "messages/tail": Route(routes_messages.tail),
    "messages/export": Route(routes_messages.export),
    "messages/produce": Route(routes_messages.produce, changes=True, most_bytes=MAX_BODY_BYTES),
    "messages/send-again": Route(routes_messages.send_again, changes=True),
    "groups": Route(routes_groups.groups_live),
    "group": Route(routes_groups.group_live),
    "groups/plan-reset": Route(routes_groups.plan_reset),
    "groups/reset": Route(routes_groups.reset, changes=True),
    "groups/delete": Route(routes_groups.delete_group, changes=True),
    "transactions": Route(routes_transactions.transactions),
    "transactions/hanging": Route(routes_transactions.hanging),
    "transactions/abort": Route(routes_transactions.abort_transaction, changes=True),
    "moves": Route(routes_moves.moves_live),
    "moves/plan": Route(routes_moves.plan),
    "moves/start": Route(routes_moves.start, changes=True),
    "moves/cancel": Route(routes_moves.cancel, changes=True),
    "quotas": Route(routes_access.quotas),
    "quotas/set": Route(routes_access.set_quota, changes=True),
    "users": Route(routes_access.users),
    "users/set": Route(routes_access.set_user, changes=True),
    "users/remove": Route(routes_access.remove_user, changes=True),
    "acls": Route(routes_access.acls),
    "acls/add": Route(routes_access.add_acl, changes=True),
    "acls/remove": Route(routes_access.remove_acl, changes=True),
    "story": Route(story.last_election),
}
"""By the path below /api/."""
