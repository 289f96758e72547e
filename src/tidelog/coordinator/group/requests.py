"""What each request asks of which shards, and how an answer that needs several comes together."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tidelog import effects
from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.contract import Result
from tidelog.coordinator.gathering import Gatherings
from tidelog.coordinator.group import deletion, describe, kinds
from tidelog.coordinator.group.consumer import describe as consumer_describe
from tidelog.coordinator.group.consumer import heartbeat as consumer_heartbeat
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.membership import responses
from tidelog.coordinator.group.membership.join import Joining
from tidelog.coordinator.group.offsets import commit, fetch, transactional
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shards import Shards
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.groups.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from tidelog.wire.messages.groups.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.groups.join_group import JoinGroupRequest
from tidelog.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
)
from tidelog.wire.messages.groups.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tidelog.wire.messages.groups.sync_group import SyncGroupRequest
from tidelog.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


class Caller(NamedTuple):
    """Who sent a request, and in which version. `partitions` is the size of the group topic as the cluster knows it,
    0 where it does not exist yet."""

    client_id: str = ""
    client_host: str = ""
    version: int = 0
    partitions: int = 0


class Requests:
    """The way from a request to the machines that answer it."""

    def __init__(self, config: BrokerConfig, shards: Shards[GroupMachine]) -> None:
        self.config = config
        self.shards = shards
        self.gatherings = Gatherings()

    def __repr__(self) -> str:
        return f"<Requests to {self.shards!r}, {len(self.gatherings)} parts missing>"

    def handle(self, token: int, request: Any, caller: Caller) -> None:
        _HANDLERS[type(request)](self, token, request, caller)

    def partition(self, group_id: str, caller: Caller) -> int:
        return partition_for(group_id, caller.partitions or self.config.offsets_topic_num_partitions)

    def reply(self, token: int, response: Any) -> None:
        self.shards.context.effects.append(effects.Reply(token, response))

    def write(
        self,
        group_id: str,
        caller: Caller,
        token: int,
        run: Callable[[GroupMachine], Result],
        refuse: Callable[[ErrorCode], Any],
    ) -> None:
        """A writing operation on one group, whose id must not be empty."""
        if not group_id:
            self.reply(token, refuse(ErrorCode.INVALID_GROUP_ID))
        else:
            self.shards.execute(self.partition(group_id, caller), run, token, refuse)

    def by_partition(
        self,
        token: int,
        group_ids: Iterable[str],
        caller: Caller,
        ask: Callable[[int, int, list[str]], None],
        combine: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Ask every partition that holds one of the groups for its part of the answer."""
        idsby_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            idsby_partition.setdefault(self.partition(group_id, caller), []).append(group_id)
        if not idsby_partition:
            self.reply(token, combine([]))
            return
        parts = self.gatherings.open(token, len(idsby_partition), combine)
        for part, (partition, ids) in zip(parts, idsby_partition.items(), strict=True):
            ask(part, partition, ids)


def _join(requests: Requests, token: int, request: JoinGroupRequest, caller: Caller) -> None:
    refuse = partial(responses.join_error, request.member_id)
    timeout_ms = request.session_timeout_ms
    low, high = requests.config.group_min_session_timeout_ms, requests.config.group_max_session_timeout_ms
    if request.group_id and not low <= timeout_ms <= high:
        requests.reply(token, refuse(ErrorCode.INVALID_SESSION_TIMEOUT))
        return
    joining = Joining(token, request, caller.version, caller.client_id, caller.client_host)
    requests.write(request.group_id, caller, token, lambda machine: kinds.join(machine, joining), refuse)


def _sync(requests: Requests, token: int, request: SyncGroupRequest, caller: Caller) -> None:
    requests.write(
        request.group_id, caller, token, lambda machine: kinds.sync(machine, request, token), responses.sync_error
    )


def _heartbeat(requests: Requests, token: int, request: HeartbeatRequest, caller: Caller) -> None:
    """While a group loads, its members are all taken to live."""

    def refuse(code: ErrorCode) -> HeartbeatResponse:
        is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)

    requests.write(request.group_id, caller, token, lambda machine: kinds.heartbeat(machine, request), refuse)


def _consumer_heartbeat(requests: Requests, token: int, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> None:
    try:
        consumer_heartbeat.check(request, caller.version)
        consumer_heartbeat.check_assignor(request.server_assignor, requests.config.group_consumer_assignors)
    except ApiError as error:
        requests.reply(token, consumer_heartbeat.refused(error.code, str(error)))
        return
    sender = consumer_heartbeat.Sender(caller.client_id, caller.client_host)
    requests.shards.execute(
        requests.partition(request.group_id, caller),
        lambda machine: consumer_heartbeat.heartbeat(machine, request, sender),
        token,
        consumer_heartbeat.refused,
    )


def _leave(requests: Requests, token: int, request: LeaveGroupRequest, caller: Caller) -> None:
    def refuse(code: ErrorCode) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=code)

    requests.write(request.group_id, caller, token, lambda machine: kinds.leave(machine, request), refuse)


def _commit(requests: Requests, token: int, request: OffsetCommitRequest, caller: Caller) -> None:
    """The empty group id is allowed: old clients that need no group use it."""
    requests.shards.execute(
        requests.partition(request.group_id, caller),
        lambda machine: commit.commit(machine, request, caller.version),
        token,
        partial(commit.commit_error, request),
    )


def _commit_in_transaction(requests: Requests, token: int, request: TxnOffsetCommitRequest, caller: Caller) -> None:
    requests.write(
        request.group_id,
        caller,
        token,
        lambda machine: transactional.commit(machine, request),
        partial(transactional.commit_error, request),
    )


def _fetch(requests: Requests, token: int, request: OffsetFetchRequest, caller: Caller) -> None:
    def combine(groups: Sequence[Any]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=list(groups))

    if not request.groups:
        requests.reply(token, combine([]))
        return
    parts = requests.gatherings.open(token, len(request.groups), combine)
    for part, group in zip(parts, request.groups, strict=True):
        _fetch_one(requests, part, group, caller, require_stable=request.require_stable)


def _fetch_one(
    requests: Requests, part: int, group: OffsetFetchRequestGroup, caller: Caller, *, require_stable: bool
) -> None:
    """A fetch that requires stable positions sees the newest, and waits until they are committed."""
    partition = requests.partition(group.group_id, caller)
    refuse = partial(fetch.fetch_error, group)
    if require_stable:
        requests.shards.execute(
            partition, lambda machine: Result(fetch.fetch(machine, group, newest=True)), part, refuse
        )
    else:
        requests.shards.read(partition, lambda machine: fetch.fetch(machine, group, newest=False), part, refuse)


def _delete_offsets(requests: Requests, token: int, request: OffsetDeleteRequest, caller: Caller) -> None:
    def refuse(code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code)

    requests.write(request.group_id, caller, token, lambda machine: deletion.delete_offsets(machine, request), refuse)


def _delete_groups(requests: Requests, token: int, request: DeleteGroupsRequest, caller: Caller) -> None:
    requests.by_partition(
        token,
        list(dict.fromkeys(request.groups_names)),
        caller,
        lambda part, partition, ids: requests.shards.execute(
            partition, lambda machine: deletion.delete_groups(machine, ids), part, partial(_deletions_refused, ids)
        ),
        lambda parts: DeleteGroupsResponse(results=[result for part in parts for result in part]),
    )


def _describe(requests: Requests, token: int, request: DescribeGroupsRequest, caller: Caller) -> None:
    requests.by_partition(
        token,
        request.groups,
        caller,
        lambda part, partition, ids: requests.shards.read(
            partition,
            lambda machine: describe.describe_groups(machine, ids, caller.version),
            part,
            partial(_descriptions_refused, ids),
        ),
        lambda parts: DescribeGroupsResponse(groups=[group for part in parts for group in part]),
    )


def _describe_consumer_groups(
    requests: Requests, token: int, request: ConsumerGroupDescribeRequest, caller: Caller
) -> None:
    def refuse(ids: list[str], code: ErrorCode) -> list[Any]:
        return [consumer_describe.refused(group_id, code) for group_id in ids]

    nameless = refuse([group_id for group_id in request.group_ids if not group_id], ErrorCode.INVALID_GROUP_ID)
    requests.by_partition(
        token,
        [group_id for group_id in request.group_ids if group_id],
        caller,
        lambda part, partition, ids: requests.shards.read(
            partition, lambda machine: consumer_describe.describe(machine, ids), part, partial(refuse, ids)
        ),
        lambda parts: ConsumerGroupDescribeResponse(groups=[*nameless, *(group for part in parts for group in part)]),
    )


def _list(requests: Requests, token: int, request: ListGroupsRequest, caller: Caller) -> None:
    """Groups of the partitions that are led here; a client asks every broker."""
    del caller
    partitions = [shard.partition.partition for shard in requests.shards]
    if not partitions:
        requests.reply(token, ListGroupsResponse())
        return
    parts = requests.gatherings.open(token, len(partitions), _listed)
    for part, partition in zip(parts, partitions, strict=True):
        requests.shards.read(
            partition,
            lambda machine: describe.list_groups(machine, request.states_filter, request.types_filter),
            part,
            lambda code: code,
        )


def _deletions_refused(group_ids: list[str], code: ErrorCode) -> list[DeletableGroupResult]:
    return [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in group_ids]


def _descriptions_refused(group_ids: list[str], code: ErrorCode) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=group_id, error_code=code) for group_id in group_ids]


def _listed(parts: Sequence[Any]) -> ListGroupsResponse:
    """A part is a list, or the code of a partition that could not answer."""
    for part in parts:
        if isinstance(part, ErrorCode) and part != ErrorCode.NOT_COORDINATOR:
            return ListGroupsResponse(error_code=part)
    return ListGroupsResponse(groups=[group for part in parts if isinstance(part, list) for group in part])


_HANDLERS: dict[type, Callable[[Requests, int, Any, Caller], None]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _commit_in_transaction,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: _delete_offsets,
    DeleteGroupsRequest: _delete_groups,
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: _list,
    ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
    ConsumerGroupDescribeRequest: _describe_consumer_groups,
}
