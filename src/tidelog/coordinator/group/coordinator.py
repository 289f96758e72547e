"""The group coordinator of one broker: for each request, its shards and the rule that answers it.

Responses have the shape of the newest version. If several shards answer, their parts are combined here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.coordinator.contract import Result, Run
from tidelog.coordinator.coordinator import Coordinator, Finish
from tidelog.coordinator.group import deletion, describe, offset_commit, offset_fetch
from tidelog.coordinator.group.classic import join as classic_join
from tidelog.coordinator.group.classic import rebalance
from tidelog.coordinator.group.classic import sessions as classic_sessions
from tidelog.coordinator.group.classic.group import join_error, sync_error
from tidelog.coordinator.group.classic.join import JoinContext
from tidelog.coordinator.group.consumer import classic_members, sessions, subscriptions
from tidelog.coordinator.group.consumer import heartbeat as consumer_heartbeat
from tidelog.coordinator.group.consumer.topics import Cluster, NoTopics
from tidelog.coordinator.group.machine import Entropy, GroupHooks, GroupMachine
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import GROUP_TOPIC, Time
from tidelog.slices import Sliced, all_of, made_of
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tidelog.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.groups.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.transactions.transaction_requests import TxnOffsetCommitRequest


class Caller(NamedTuple):
    """The sender of a request, and its version. `partitions` is the size of the group topic in the cluster metadata, 0
    if it does not exist yet. `may_describe` returns whether the sender may see a topic; None: all."""

    client_id: str = ""
    client_host: str = ""
    version: int = 0
    partitions: int = 0
    may_describe: Callable[[str], bool] | None = None


class GroupCoordinator(Coordinator[GroupMachine]):
    """All groups whose partition of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        entropy: Entropy,
        cluster: Cluster | None = None,
        group_config: Callable[[str], GroupConfig] | None = None,
    ) -> None:
        """`cluster` is read whenever a consumer group's subscriptions are evaluated; `group_config` returns a group's
        current options."""
        self.config = config
        self._group_config = group_config or (lambda _: GroupConfig({}, config))
        self._cluster: Cluster = NoTopics() if cluster is None else cluster
        self._entropy = entropy
        context = ShardContext(config.offsets_commit_timeout_ms, config.offsets_topic_compression_codec)
        super().__init__(context, GROUP_TOPIC, self._machine)

    def _machine(self, shard: Shard) -> GroupMachine:
        return GroupMachine(shard, self.config, self._entropy, HOOKS, self._cluster, self._group_config)

    def partition_for(self, group_id: str, partitions: int = 0) -> int:
        """The partition of the group topic that holds the group. `partitions` is the size of the topic; 0 means the
        size that it will be created with."""
        return partition_for(group_id, partitions or self.config.offsets_topic_num_partitions)

    def handle(self, token: int, request: Any, caller: Caller, now: Time, finish: Finish | None = None) -> list[Effect]:
        """Handle any request of the group APIs except FindCoordinator; tokens are not negative. OffsetFetch has the
        form with groups, LeaveGroup the form with members, and topics have both name and ID."""
        return self._handle(now, finish, token, request, caller)

    def transaction_ended(
        self, partition: int, offset: int, producer_id: int, now: Time, *, committed: bool
    ) -> list[Effect]:
        """The transaction coordinator appended a marker to the partition at this offset."""
        ended = partial(self._shards.transaction_ended, committed=committed)
        return self._input(now, ended, partition, offset, producer_id)

    def topics_changed(self, topics: Iterable[str], now: Time) -> list[Effect]:
        """Topics were created, changed or deleted: consumer groups that subscribe to them check their subscriptions
        again."""
        return self._input(now, self._mark_outdated, set(topics))

    def _mark_outdated(self, topics: set[str]) -> None:
        for shard in self._shards:
            if not shard.is_loading:
                subscriptions.topics_changed(self._shards.machine(shard.partition.partition), topics)

    def topics_deleted(self, topics: Iterable[str], now: Time) -> list[Effect]:
        """Topics were deleted, or created again under the same names: committed offsets of the old ones are deleted."""
        names = list(topics)
        return self._input(now, self._delete_offsets_of, names)

    def _delete_offsets_of(self, topics: list[str]) -> None:
        for shard in self._shards:
            machine = self._shards.machine(shard.partition.partition)
            shard.execute_once_loaded(partial(deletion.forget_topics, machine, topics))

    # Requests.

    def _write(
        self,
        group_id: str,
        caller: Caller,
        token: int,
        run: Callable[[GroupMachine], Result],
        refuse: Callable[[ErrorCode], Any],
    ) -> None:
        """Run a writing operation on one group; its ID must not be empty."""
        if not group_id:
            self._reply(token, refuse(ErrorCode.INVALID_GROUP_ID))
        else:
            self._shards.execute(self.partition_for(group_id, caller.partitions), run, token, refuse)

    def _by_partition(
        self,
        token: int,
        group_ids: Iterable[str],
        caller: Caller,
        submit: Callable[[int, int, list[str]], None],
        combine: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Submit one part to every partition that holds one of the groups."""
        ids_by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            ids_by_partition.setdefault(self.partition_for(group_id, caller.partitions), []).append(group_id)
        if not ids_by_partition:
            self._reply(token, combine([]))
            return
        parts = self._combined.open(token, len(ids_by_partition), combine)
        for part, (partition, ids) in zip(parts, ids_by_partition.items(), strict=True):
            submit(part, partition, ids)

    def _join(self, token: int, request: JoinGroupRequest, caller: Caller) -> None:
        refuse = partial(join_error, request.member_id)
        timeout_ms = request.session_timeout_ms
        low, high = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if request.group_id and not low <= timeout_ms <= high:
            self._reply(token, refuse(ErrorCode.INVALID_SESSION_TIMEOUT))
            return
        context = JoinContext(token, request, caller.version, caller.client_id, caller.client_host)
        self._write(request.group_id, caller, token, lambda machine: _join_by_kind(machine, context), refuse)

    def _sync(self, token: int, request: SyncGroupRequest, caller: Caller) -> None:
        self._write(request.group_id, caller, token, lambda machine: _sync_by_kind(machine, request, token), sync_error)

    def _heartbeat(self, token: int, request: HeartbeatRequest, caller: Caller) -> None:
        """While a group is loading, all of its members count as alive."""

        def refuse(code: ErrorCode) -> HeartbeatResponse:
            is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)

        self._write(request.group_id, caller, token, lambda machine: _heartbeat_by_kind(machine, request), refuse)

    def _consumer_heartbeat(self, token: int, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> None:
        try:
            consumer_heartbeat.check_request(request, caller.version)
            consumer_heartbeat.check_assignor(request.server_assignor, self.config.group_consumer_assignors)
        except ApiError as error:
            self._reply(token, consumer_heartbeat.heartbeat_error(error.code, str(error)))
            return
        sender = consumer_heartbeat.Sender(caller.client_id, caller.client_host, caller.may_describe)
        self._shards.execute(
            self.partition_for(request.group_id, caller.partitions),
            lambda machine: consumer_heartbeat.heartbeat(machine, request, sender),
            token,
            consumer_heartbeat.heartbeat_error,
        )

    def _leave(self, token: int, request: LeaveGroupRequest, caller: Caller) -> None:
        def refuse(code: ErrorCode) -> LeaveGroupResponse:
            return LeaveGroupResponse(error_code=code)

        self._write(request.group_id, caller, token, lambda machine: _leave_by_kind(machine, request), refuse)

    def _commit(self, token: int, request: OffsetCommitRequest, caller: Caller) -> None:
        """The empty group ID is valid: old clients that do not use a group send it."""
        self._shards.execute(
            self.partition_for(request.group_id, caller.partitions),
            lambda machine: offset_commit.commit(machine, request, caller.version),
            token,
            partial(offset_commit.commit_error, request),
        )

    def _commit_in_transaction(self, token: int, request: TxnOffsetCommitRequest, caller: Caller) -> None:
        self._write(
            request.group_id,
            caller,
            token,
            lambda machine: offset_commit.commit_in_transaction(machine, request),
            partial(offset_commit.transactional_commit_error, request),
        )

    def _fetch(self, token: int, request: OffsetFetchRequest, caller: Caller) -> None:
        if not request.groups:
            self._reply(token, OffsetFetchResponse())
            return
        parts = self._combined.open(token, len(request.groups), _fetched)
        for part, group in zip(parts, request.groups, strict=True):
            self._fetch_one(part, group, caller, require_stable=request.require_stable)

    def _fetch_one(self, part: int, group: OffsetFetchRequestGroup, caller: Caller, *, require_stable: bool) -> None:
        """A fetch that requires stable offsets reads the newest ones, and waits until they are committed."""
        partition = self.partition_for(group.group_id, caller.partitions)
        refuse = partial(offset_fetch.fetch_error, group)
        if require_stable:
            self._shards.execute(
                partition, lambda machine: Result(offset_fetch.fetch(machine, group, newest=True)), part, refuse
            )
        else:
            self._shards.read(partition, lambda machine: offset_fetch.fetch(machine, group, newest=False), part, refuse)

    def _delete_offsets(self, token: int, request: OffsetDeleteRequest, caller: Caller) -> None:
        def refuse(code: ErrorCode) -> OffsetDeleteResponse:
            return OffsetDeleteResponse(error_code=code)

        self._write(request.group_id, caller, token, lambda machine: deletion.delete_offsets(machine, request), refuse)

    def _delete_groups(self, token: int, request: DeleteGroupsRequest, caller: Caller) -> None:
        self._by_partition(
            token,
            list(dict.fromkeys(request.groups_names)),
            caller,
            lambda part, partition, ids: self._shards.execute(
                partition, lambda machine: deletion.delete_groups(machine, ids), part, partial(_deletions_refused, ids)
            ),
            lambda parts: DeleteGroupsResponse(results=[result for part in parts for result in part]),
        )

    def _describe(self, token: int, request: DescribeGroupsRequest, caller: Caller) -> None:
        self._by_partition(
            token,
            request.groups,
            caller,
            lambda part, partition, ids: self._shards.read(
                partition,
                lambda machine: describe.describe_groups(machine, ids, caller.version),
                part,
                partial(_descriptions_refused, ids),
            ),
            _described,
        )

    def _describe_consumer_groups(self, token: int, request: ConsumerGroupDescribeRequest, caller: Caller) -> None:
        def refuse(ids: list[str], code: ErrorCode) -> list[Any]:
            return [describe.consumer_group_error(group_id, code) for group_id in ids]

        unnamed = refuse([group_id for group_id in request.group_ids if not group_id], ErrorCode.INVALID_GROUP_ID)
        self._by_partition(
            token,
            [group_id for group_id in request.group_ids if group_id],
            caller,
            lambda part, partition, ids: self._shards.read(
                partition,
                lambda machine: describe.describe_consumer_groups(machine, ids),
                part,
                partial(refuse, ids),
            ),
            partial(_described_consumer_groups, unnamed),
        )

    def _list(self, token: int, request: ListGroupsRequest, caller: Caller) -> None:
        """The groups of the partitions that are led here; a client queries every broker."""
        del caller
        partitions = [shard.partition.partition for shard in self._shards]
        if not partitions:
            self._reply(token, ListGroupsResponse())
            return
        states, types = describe.wanted(request.states_filter), describe.wanted(request.types_filter)
        parts = self._combined.open(token, len(partitions), partial(_listed, states))
        for part, partition in zip(parts, partitions, strict=True):
            self._shards.read(
                partition,
                lambda machine: describe.to_list(machine, types),
                part,
                lambda code: code,
            )

    _HANDLERS: ClassVar[Mapping[type, Callable[..., None]]] = {
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


def _deletions_refused(group_ids: list[str], code: ErrorCode) -> list[DeletableGroupResult]:
    return [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in group_ids]


def _descriptions_refused(group_ids: list[str], code: ErrorCode) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=group_id, error_code=code) for group_id in group_ids]


def _described(parts: Sequence[Any]) -> Sliced[DescribeGroupsResponse]:
    return DescribeGroupsResponse(groups=(yield from all_of(chain.from_iterable(parts))))


def _described_consumer_groups(unnamed: list[Any], parts: Sequence[Any]) -> Sliced[ConsumerGroupDescribeResponse]:
    groups = yield from all_of(chain.from_iterable(parts))
    return ConsumerGroupDescribeResponse(groups=[*unnamed, *groups])


def _fetched(parts: Sequence[Any]) -> Sliced[OffsetFetchResponse]:
    groups = yield from all_of(parts)
    return OffsetFetchResponse(groups=groups)


def _listed(states: Collection[str], parts: Sequence[Any]) -> Sliced[ListGroupsResponse]:
    """A part is a list of groups, or the error code of a partition that could not answer."""
    for part in parts:
        if isinstance(part, ErrorCode) and part != ErrorCode.NOT_COORDINATOR:
            return ListGroupsResponse(error_code=part)
    groups = [group for part in parts if isinstance(part, list) for group in part]
    return ListGroupsResponse(groups=(yield from made_of(groups, partial(describe.listed, states))))


# Requests of classic members go to the rules for the kind of their group.


def _join_by_kind(machine: GroupMachine, context: JoinContext) -> Result:
    """A consumer group without members becomes a classic group."""
    group = machine.consumers.newest.get(context.request.group_id)
    if group is None:
        return classic_join.join(machine, context)
    if group.members:
        return classic_members.join(machine, group, context)
    result = classic_join.join(machine, context)
    if result.changes:
        result.changes = [*deletion.group_tombstones(group), *result.changes]
    return result


def _sync_by_kind(machine: GroupMachine, request: SyncGroupRequest, token: int) -> Result:
    group = machine.consumers.newest.get(request.group_id)
    if group is None:
        return rebalance.sync(machine, request, token)
    return classic_members.sync(machine, group, request)


def _heartbeat_by_kind(machine: GroupMachine, request: HeartbeatRequest) -> Result:
    group = machine.consumers.newest.get(request.group_id)
    if group is None:
        return classic_sessions.heartbeat(machine, request)
    return classic_members.heartbeat(machine, group, request)


def _leave_by_kind(machine: GroupMachine, request: LeaveGroupRequest) -> Result:
    group = machine.consumers.newest.get(request.group_id)
    if group is None:
        return classic_sessions.leave(machine, request)
    return classic_members.leave(machine, group, request)


def start_loaded_groups(machine: GroupMachine) -> Iterable[Run]:
    """Every member gets a whole session timeout. A group that exceeds its maximum size starts a rebalance, and so does
    one that was saved without a leader: the previous coordinator was about to start it."""
    deletion.schedule_expiry(machine)
    for consumer_group in machine.consumers.newest.values():
        sessions.set_loaded_deadlines(machine, consumer_group)
    for group in machine.groups.values():
        for member in group.members.values():
            machine.renew_session(group, member.member_id, member.session_timeout_ms)
        if len(group.members) > machine.config.group_max_size:
            yield partial(rebalance.prepare, machine, group, "the loaded group is over capacity")
        elif group.has_no_leader_on_record:
            yield partial(rebalance.prepare, machine, group, "the loaded group became a classic one")


HOOKS = GroupHooks(on_loaded=start_loaded_groups, on_session_expired=classic_sessions.expire_member)
