"""Members that go by their own wish: for good, or, static ones, for a while."""

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.consumer.fencing import fence
from tidelog.coordinator.group.consumer.joining import known_member, known_static_member
from tidelog.coordinator.group.consumer.member import LEAVE_STATIC_EPOCH, NOTHING, Member
from tidelog.coordinator.group.consumer.mixed.conversion import consumer_group
from tidelog.coordinator.group.consumer.records import current_change
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(machine: GroupMachine, request: ConsumerGroupHeartbeatRequest) -> Result:
    """ApiError GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    group = consumer_group(machine, request.group_id)
    instance_id = request.instance_id
    if instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static_member(group, request.member_id, instance_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            return _leave_for_a_while(request.group_id, member)
    result = fence(machine, group, [member])
    result.response = _left(request.member_id, request.member_epoch)
    return result


def _leave_for_a_while(group_id: str, member: Member) -> Result:
    """The member's partitions stay its own until its session is over."""
    current = member.current._replace(
        epoch=LEAVE_STATIC_EPOCH, assigned=dict.fromkeys(member.current.assigned, 0), revoking=NOTHING
    )
    changes = [current_change(group_id, member.member_id, current)]
    return Result(_left(member.member_id, LEAVE_STATIC_EPOCH), changes)


def _left(member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)
