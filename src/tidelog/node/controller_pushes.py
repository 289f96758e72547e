"""What the controller pushes to this broker: LeaderAndIsr, StopReplica and UpdateMetadata.

`PushOrder` decides which pushes are accepted. A push may arrive long after its sender gave it up, on a connection that
is closed by then, behind what was sent after it. So a controller numbers its pushes, and a push that is older than the
last one accepted is refused: its sender has repeated it since, or has a newer state. A forged number that is higher
than all makes this broker refuse the rest of the term: the controller learns it from the refusal, and begins the next
term with a higher epoch. A new controller counts once the store has confirmed its epoch: otherwise one frame with a
high epoch would make this broker refuse every later controller. From then on older controllers are refused, even before
a push of the new one has arrived.

`Assignments` carries out LeaderAndIsr and StopReplica.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from tidelog.api.context import Push
from tidelog.controller import tree
from tidelog.controller.controller import Controller
from tidelog.controller.image import ClusterImage
from tidelog.effects import Effect, Event, Reply
from tidelog.errors import ApiError, CorruptLog, DiskFailed, ErrorCode
from tidelog.model import NO_ID, NO_LEADER, Time, TopicPartition
from tidelog.node.configs import ConfigMirror
from tidelog.node.fetching import Fetching
from tidelog.node.membership import Membership, Submit
from tidelog.node.replicas import HeldReplicas
from tidelog.node.upkeep.folder_syncs import FolderSyncs
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Assignment, Partition
from tidelog.ports import Node, Read, StoreResult
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)

UNNUMBERED = -1


class PushOrder:
    """`confirmed` is the highest controller epoch that was read from the store."""

    def __init__(self, submit: Submit, controller: Controller) -> None:
        self._submit = submit
        self._controller = controller
        self._taken = (1, UNNUMBERED)
        """(controller epoch, push number) of the last push accepted; controller epochs begin at 1."""
        self._is_reading_epoch = False
        self.confirmed = 0

    def __repr__(self) -> str:
        return f"<PushOrder: {self._taken} taken, epoch {self.confirmed} confirmed>"

    def is_stale(self, push: Push) -> bool:
        """Whether a newer push was accepted, or the store has confirmed a newer controller."""
        self.confirmed = max(self.confirmed, self._controller.known_epoch)
        return (push.controller_epoch, push.push_number) < max(self._taken, (self.confirmed, UNNUMBERED))

    def accept(self, push: Push) -> ErrorCode:
        """NONE where the push is to be applied; whatever comes after it must be newer."""
        position = (push.controller_epoch, push.push_number)
        if self.is_stale(push) or (position == self._taken and push.push_number != UNNUMBERED):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if push.controller_epoch > self.confirmed:
            self._read_epoch()
            return ErrorCode.UNKNOWN_CONTROLLER_ID
        self._taken = position
        return ErrorCode.NONE

    def _read_epoch(self) -> None:
        """One read at a time. Nobody waits for it: the controller repeats a push that was refused."""
        if not self._is_reading_epoch:
            self._is_reading_epoch = True
            self._submit([Read(tree.CONTROLLER_EPOCH)], self._epoch_read)

    def _epoch_read(self, result: StoreResult) -> None:
        self._is_reading_epoch = False
        node = result.values[0] if result.outcome == "ok" else None
        if isinstance(node, Node):
            self.confirmed = max(self.confirmed, tree.parse_controller_epoch(node.data))


DELETE_EPOCH = -2
"""StopReplica's leader epoch for a deletion that is valid in any epoch."""


class _Role(NamedTuple):
    """A role of a replica that is here, and where the answer has its code."""

    partition: Partition
    state: LeaderAndIsrPartitionState
    error: LeaderAndIsrPartitionError


class Assignments:
    """`on_role` is called with every replica whose role or epoch changed, and with those that were stopped (no
    role)."""

    def __init__(
        self,
        broker_id: int,
        replicas: HeldReplicas,
        fetching: Fetching,
        mirror: ConfigMirror,
        image: ClusterImage,
        membership: Membership,
        effects: list[Effect],
        *,
        on_role: Callable[[Partition], None],
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._fetching = fetching
        self._mirror = mirror
        self._image = image
        self._effects = effects
        self._on_role = on_role
        self._membership = membership
        self.folder_syncs = FolderSyncs(replicas, effects)

    def __repr__(self) -> str:
        return f"<Assignments of broker {self._broker_id}>"

    def apply(
        self, request: LeaderAndIsrRequest, token: int, now: Callable[[], Time], refusal: Callable[[], ErrorCode]
    ) -> None:
        """Read the configuration of topics that are new here, create their replicas, lead and follow, and answer. A
        replica that is not durable yet gets its role once it is; the others do not wait for it, because its disk may
        hang. A newer push may come in between and delete replicas, or the broker may register anew: `refusal` checks
        that again."""
        unread = [
            tree.topic_config_path(topic.topic_name)
            for topic in request.topic_states
            if any(self._replicas.get(topic.topic_name, s.partition_index) is None for s in topic.partition_states)
        ]

        def read() -> None:
            code = refusal()
            if code:
                self._effects.append(Reply(token, LeaderAndIsrResponse(error_code=code)))
                return
            response, roles = self._created(request, now())
            late = []
            for role in roles:
                if self.folder_syncs.is_durable(role.partition.name):
                    role.error.error_code = self._assign(role.partition, role.state, now())
                else:
                    late.append(role)

            def durable(_failed: Collection[TopicPartition]) -> None:
                code = refusal()
                for role in late if not code else ():
                    role.error.error_code = self._assign(role.partition, role.state, now())
                self._effects.append(Reply(token, LeaderAndIsrResponse(error_code=code) if code else response))

            self.folder_syncs.when_durable([role.partition.name for role in late], durable)

        self._mirror.read(unread, read)

    def _created(self, request: LeaderAndIsrRequest, now: Time) -> tuple[LeaderAndIsrResponse, list[_Role]]:
        """Create the replicas that are new here; the answer, and the roles whose codes it still lacks."""
        response, roles = LeaderAndIsrResponse(topics=[]), []
        for topic in request.topic_states:
            errors = LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=[])
            response.topics.append(errors)
            for state in topic.partition_states:
                error = LeaderAndIsrPartitionError(partition_index=state.partition_index)
                errors.partition_errors.append(error)
                found = self._create(topic, state, now)
                if isinstance(found, Partition):
                    roles.append(_Role(found, state, error))
                else:
                    error.error_code = found
        return response, roles

    def _create(
        self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState, now: Time
    ) -> Partition | ErrorCode:
        """The replica, created if it is new here, or the code to answer for it."""
        name = TopicPartition(topic.topic_name, state.partition_index)
        held = self._replicas.get(*name)
        if held is not None and held.log.topic_id != topic.topic_id and self._is_known(held):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if state.leader == NO_LEADER and not state.is_new and self._may_be_in_missing_folder(name, state):
            return ErrorCode.NONE
        try:
            return self._replicas.create(name, topic.topic_id, now, is_new=state.is_new)
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptLog as error:
            self._effects.append(Event("log.corrupt", {"partition": str(name), "reason": str(error)}, level="error"))
            return ErrorCode.KAFKA_STORAGE_ERROR
        except ApiError as error:
            return error.code

    def _assign(self, partition: Partition, state: LeaderAndIsrPartitionState, now: Time) -> ErrorCode:
        if self._replicas.get(*partition.name) is not partition:
            return ErrorCode.STALE_CONTROLLER_EPOCH  # deleted meanwhile, by what came later
        if partition.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            before = partition.log.log_end_offset
            given = Assignment(
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                state.partition_epoch,
                tuple(state.replicas),
                tuple(state.adding_replicas) if state.adding_replicas or state.removing_replicas else None,
                tuple(state.elr),
            )
            if not partition.assign(given, now):
                return ErrorCode.STALE_CONTROLLER_EPOCH if state.leader_epoch < partition.epoch else ErrorCode.NONE
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptLog as error:
            fields = {"partition": str(partition.name), "reason": str(error)}
            self._effects.append(Event("log.corrupt", fields, level="error"))
            return ErrorCode.KAFKA_STORAGE_ERROR
        except ApiError as error:
            return error.code
        self._changed(partition, before, in_sync=self._broker_id in state.isr)
        return ErrorCode.NONE

    def _may_be_in_missing_folder(self, name: TopicPartition, state: LeaderAndIsrPartitionState) -> bool:
        """The partition has no leader, perhaps because its replica is in the folder that is missing: an empty one must
        not exist beside it when that folder is back. A broker that was in sync with all the folders it has now has no
        replica elsewhere: a power loss took what it had not synced yet."""
        if self._replicas.get(*name) is not None:
            return False
        members = (*state.isr, *state.elr, *state.last_known)
        epochs = (*state.isr_epochs, *state.elr_epochs, *state.last_known_epochs)
        recorded = dict(zip(members, epochs, strict=False)).get(self._broker_id)
        return not self._membership.has_directories_of(recorded)

    def _changed(self, partition: Partition, end_before: int, *, in_sync: bool) -> None:
        leads = isinstance(partition.role, Leader)
        fields = {
            "partition": str(partition.name),
            "broker": self._broker_id,
            "epoch": partition.epoch,
            "leader": partition.leader_id,
            "partition_epoch": partition.partition_epoch,
            "high_watermark": partition.high_watermark,
            "end": partition.log.log_end_offset,
        }
        if partition.log.log_end_offset < end_before:
            cut = {**fields, "before": end_before, "offset": partition.log.log_end_offset}
            self._effects.append(Event("log.truncate", cut))
            self._replicas.truncated = True
        self._effects.append(Event("partition.leader" if leads else "partition.follower", fields, level="debug"))
        self._fetching.follow(partition, in_sync=in_sync)
        self._on_role(partition)

    def unknown_topics(self) -> list[Partition]:
        """Replicas whose topics are not in the image: they were deleted while this broker was away, or lost with the
        metadata."""
        return [partition for partition in self._replicas if not self._is_known(partition)]

    def _is_known(self, partition: Partition) -> bool:
        """Whether the image has its topic, by id and not only by name."""
        return self._image.topic_by_id(partition.log.topic_id) is not None

    def delete_stray_replicas(self, unknown_topics: Collection[Partition]) -> None:
        """Delete the replicas that were moved elsewhere while this broker was away: a newer state than their own
        assigns the partition to others. Replicas of `unknown_topics` are stopped, but their files stay."""
        deleted = []
        for partition in self._replicas:
            topic = self._image.topic_by_id(partition.log.topic_id)
            assigned = topic.partitions.get(partition.name.partition) if topic is not None else None
            if assigned is None or self._broker_id in assigned.replicas:
                continue
            if (assigned.leader_epoch, assigned.partition_epoch) > (partition.epoch, partition.partition_epoch):
                self.stop(partition.name, -1, delete=True)
                deleted.append(partition.name)
        for partition in unknown_topics:
            if partition.role is not None and self._replicas.get(*partition.name) is partition:
                self.stop(partition.name, -1, delete=False)
        self.folder_syncs.when_durable(deleted, lambda _failed: None)

    def stop(self, name: TopicPartition, leader_epoch: int, *, delete: bool, topic_id: bytes = NO_ID) -> ErrorCode:
        """Stop the replica, and delete it if `delete`. FENCED_LEADER_EPOCH for an epoch older than its own,
        INCONSISTENT_TOPIC_ID for another topic's id."""
        partition = self._replicas.get(*name)
        if partition is None:
            if delete:
                self._replicas.delete(name)
            return ErrorCode.NONE
        if topic_id not in (NO_ID, partition.log.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if leader_epoch not in (-1, DELETE_EPOCH) and leader_epoch < partition.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._fetching.forget(partition)
        partition.role = None
        partition.mark_dirty()
        self._on_role(partition)
        if delete:
            try:
                self._replicas.delete(name)
            except DiskFailed as failure:
                self._replicas.disk_failed(failure)
                return ErrorCode.KAFKA_STORAGE_ERROR
            self._effects.append(Event("replica.deleted", {"partition": str(name), "broker": self._broker_id}))
        return ErrorCode.NONE
