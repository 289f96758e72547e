"""What a member asks its coordinator."""

from collections.abc import Collection, Mapping

from tidelog.client.group.assignors import ASSIGNORS, Subscription
from tidelog.client.group.subscriptions import PROTOCOL_TYPE, encode_assignment, encode_subscription
from tidelog.client.options import ConsumerOptions
from tidelog.model import TopicPartition
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest
from tidelog.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


class GroupRequests:
    """The requests of one member of one group."""

    def __init__(self, group: str, options: ConsumerOptions) -> None:
        self._group = group
        self._options = options

    def join(self, member_id: str, mine: Subscription, had: Collection[TopicPartition]) -> JoinGroupRequest:
        """`had` is what the member held before it gave it up."""
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(ASSIGNORS[name], mine, had))
            for name in self._options.partition_assignment_strategy
        ]
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )

    def sync(
        self, member_id: str, generation: int, protocol: str, assignments: Mapping[str, Collection[TopicPartition]]
    ) -> SyncGroupRequest:
        """With everybody's partitions from the leader, with none from the others."""
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in assignments.items()
            ],
        )

    def heartbeat(self, member_id: str, generation: int) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
        )

    def leave(self, member_id: str, reason: str) -> LeaveGroupRequest:
        member = MemberIdentity(member_id=member_id, reason=reason)
        return LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[member])
