"""What the leader of a group has on its hands: the members' wishes, and the partitions there are to share out."""

from collections.abc import Mapping, Sequence

from tidelog.client.cluster import Cluster
from tidelog.client.group.assignors import Assignments, Assignor, Subscription
from tidelog.client.group.subscriptions import decode_subscription
from tidelog.model import Time
from tidelog.wire.messages.groups.join_group import JoinGroupResponseMember


class Leading:
    """The assignment of one generation. ProtocolViolation if a member's subscription cannot be read. `skips`: a static
    leader came back, and what was assigned before stays (KIP-814); it only watches the topics from now on."""

    def __init__(
        self,
        cluster: Cluster,
        assignor: Assignor,
        members: Sequence[JoinGroupResponseMember],
        now: Time,
        *,
        skips: bool = False,
    ) -> None:
        self._cluster = cluster
        self._assignor = assignor
        self.skips = skips
        self._members: Mapping[str, Subscription] = {
            member.member_id: decode_subscription(assignor, member.metadata, member.group_instance_id)
            for member in members
        }
        self._topics = {topic for subscription in self._members.values() for topic in subscription.topics}
        self._seen: Mapping[str, int] = {}
        unknown = self._topics - cluster.metadata.topics.keys()
        self._updates_needed = cluster.metadata.updates + (1 if unknown else 0)
        cluster.want_topics(self._topics, now)
        if unknown:
            cluster.want_metadata(now)

    def __repr__(self) -> str:
        return f"<Leading {len(self._members)} members of {sorted(self._topics)}>"

    @property
    def knows_topics(self) -> bool:
        """Whether the cluster was asked about every topic that somebody wants."""
        return self._cluster.metadata.updates >= self._updates_needed

    def assign(self) -> Assignments:
        self._seen = self._partitions()
        return {} if self.skips else self._assignor.assign(self._seen, self._members)

    def must_assign_again(self) -> bool:
        """Whether topics came, went or grew since; told once."""
        partitions = self._partitions()
        has_changed = partitions != self._seen
        self._seen = partitions
        return has_changed

    def _partitions(self) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {
            topic: len(known[topic].partitions) for topic in self._topics if topic in known and known[topic].partitions
        }
