"""Who may commit, and ask for, the positions of a consumer group."""

from collections.abc import Iterable

from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.joining import known_member
from tidelog.coordinator.group.consumer.member import Member
from tidelog.coordinator.group.consumer.topic_partitions import Place
from tidelog.errors import ApiError, ErrorCode

MEMBER_EPOCH_VERSION = 9
"""From this version on OffsetCommit carries a member epoch."""
NO_EPOCH = -1


def check_commit(
    group: ConsumerGroup, member_id: str, epoch: int, places: Iterable[Place], *, version: int = MEMBER_EPOCH_VERSION
) -> None:
    """ApiError unless nobody is in the group, or a member commits: in its epoch, or in an older one for partitions that
    it has had since then (KIP-1251)."""
    if epoch < 0 and not group.members:
        return
    member = known_member(group, member_id)
    if not member.is_classic and version < MEMBER_EPOCH_VERSION:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.current.epoch:
        return
    if epoch > member.current.epoch or any(_is_stale(member, place, epoch) for place in places):
        raise ApiError(_stale(member))


def _is_stale(member: Member, place: Place, epoch: int) -> bool:
    since = member.current.assigned.get(place, member.current.revoking.get(place))
    return since is None or epoch < since


def _stale(member: Member) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def check_transactional(
    group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, places: Iterable[Place]
) -> None:
    """As `check_commit`; a producer that names no member is believed (KIP-447)."""
    if epoch == NO_EPOCH and not member_id and instance_id is None:
        return
    check_commit(group, member_id, epoch, places)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """ApiError where a member asks that is none, or is in another epoch. Others may ask without a name."""
    if member_id is None and epoch < 0:
        return
    member = known_member(group, member_id or "")
    if epoch != member.current.epoch:
        raise ApiError(_stale(member))
