"""What only a consumer with a group has: its membership and its committed offsets."""

from collections.abc import Mapping

from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import CoordinatorFinder
from tidelog.client.group.classic_membership import ClassicMembership
from tidelog.client.group.committed_offsets import GroupOffsets
from tidelog.client.group.consumer_membership import ConsumerMembership
from tidelog.client.group.member import Member
from tidelog.client.options import ConsumerOptions

PROTOCOLS: Mapping[str, type[Member]] = {
    "classic": ClassicMembership,
    "consumer": ConsumerMembership,
}
"""By `group.protocol`: in the classic protocol a member assigns the partitions, in the consumer protocol the
coordinator."""


class Group:
    def __init__(self, name: str, cluster: Cluster, options: ConsumerOptions) -> None:
        self.finder = CoordinatorFinder(cluster, name)
        self.membership = PROTOCOLS[options.group_protocol](cluster, self.finder, name, options)
        self.offsets = GroupOffsets(cluster, self.finder, self.membership, name, options)

    def __repr__(self) -> str:
        return f"<Group {self.membership!r}>"
