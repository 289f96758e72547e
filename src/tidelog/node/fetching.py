"""Following leaders: one fetch session for each leader carries all partitions that follow it (KIP-227).

A partition is in one of three states: `due` (its offset goes into the next request), in the session (the leader answers
when the partition is dirty), or `backing_off` after an error. One request is always in flight; the leader holds it
until it has something to answer.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from tidelog.alarms import NEVER, Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Effect, Event, PeerRequest
from tidelog.errors import ApiError, CorruptLog, DiskFailed, ErrorCode
from tidelog.log.log import Log
from tidelog.model import NO_EPOCH, NO_LEADER, Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.follower import Follower
from tidelog.partition.partition import Partition
from tidelog.partition.replication_throttle import Throttle
from tidelog.partition.truncation import EpochEnd
from tidelog.wire.messages.records import offsets as epochs
from tidelog.wire.messages.records.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

OWNER = "fetch"
EPOCHS_OWNER = "epochs"
END_OWNER = "fetch-end"
"""Of requests that end a session, whose answers are ignored."""
MIN_BACKOFF_MS = 20
LARGEST_EPOCH = 2**31 - 1
FINAL_EPOCH = -1
"""The epoch by which a fetch session is ended."""


@dataclass(slots=True)
class Following:
    """One partition of a fetcher."""

    partition: Partition
    epoch: int = NO_EPOCH
    """The leader epoch of the last request: an answer to a request of another epoch is ignored (rule 7)."""
    in_session: bool = False
    """The leader's session has it, at the offset last requested."""
    behind: bool = True
    """The leader has committed more than this log has. True until an answer shows its high watermark."""
    backoff_ms: int = MIN_BACKOFF_MS


@dataclass(slots=True)
class Fetcher:
    """One leader, and what is fetched from it. Every partition is in `all`, and in at most one of `due` and
    `backing_off`. `forgotten`: partitions that the next request removes from the session, with their topic ids.

    `session_epoch` 0 means that the next request opens a session, and ends the old one. Otherwise the leader would mark
    partitions dirty in the old one until it evicts it."""

    leader: int
    session: int = 0
    session_epoch: int = 0
    busy: bool = False
    retry_at: int = 0
    all: dict[TopicPartition, Following] = field(default_factory=dict)
    due: dict[TopicPartition, None] = field(default_factory=dict)
    backing_off: dict[TopicPartition, int] = field(default_factory=dict)
    forgotten: dict[TopicPartition, bytes] = field(default_factory=dict)

    def reset(self) -> None:
        """The session is lost: the next request must name every partition."""
        self.session_epoch = 0
        self.forgotten.clear()
        self.due = {name: None for name in self.all if name not in self.backing_off}
        for following in self.all.values():
            following.in_session = False

    def leave_session(self, name: TopicPartition) -> None:
        """The next request takes the partition out of the session."""
        following = self.all[name]
        if following.in_session:
            following.in_session = False
            self.forgotten[name] = following.partition.log.topic_id

    @property
    def has_work(self) -> bool:
        return not self.busy and bool(self.due or self.forgotten or len(self.all) > len(self.backing_off))


class Fetching:
    """All fetchers of a broker."""

    def __init__(
        self, broker_id: int, config: BrokerConfig, replicas: HeldReplicas, effects: list[Effect], throttle: Throttle
    ) -> None:
        self._broker_id = broker_id
        self._throttle = throttle
        self._config = config
        self._replicas = replicas
        self._effects = effects
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self.broker_epoch = -1
        self.alarm = Alarm()  # set by `pump`, which runs last in every turn of the node

    def __repr__(self) -> str:
        return f"<Fetching {len(self._leaders)} partitions of {sorted(self._fetchers)}>"

    def follow(self, partition: Partition, *, in_sync: bool = False) -> None:
        """The partition's role changed: fetch from its leader, or stop fetching. `in_sync`: whether the controller has
        it in the ISR."""
        name, role = partition.name, partition.role
        leader = role.leader if isinstance(role, Follower) and not partition.failed else NO_LEADER
        old = self._leaders.get(name)
        if old is not None and old != leader:
            self._leave(name)
        if leader in (NO_LEADER, self._broker_id):
            return
        fetcher = self._fetchers.setdefault(leader, Fetcher(leader))
        self._leaders[name] = leader
        known = fetcher.all.get(name)
        if known is None or known.partition is not partition or known.epoch != partition.epoch:
            held = name in fetcher.forgotten or (known is not None and known.in_session)
            fetcher.all[name] = Following(partition, in_session=held)  # an answer to another epoch is void
            fetcher.forgotten.pop(name, None)
        if in_sync:
            fetcher.all[name].behind = False
        fetcher.backing_off.pop(name, None)
        fetcher.due[name] = None

    def forget(self, partition: Partition) -> None:
        """Stop fetching it; a new replica of its name continues."""
        fetcher = self._fetchers.get(self._leaders.get(partition.name, NO_LEADER))
        if fetcher is not None and fetcher.all[partition.name].partition is partition:
            self._leave(partition.name)

    def _leave(self, name: TopicPartition) -> None:
        fetcher = self._fetchers.get(self._leaders.pop(name, NO_LEADER))
        if fetcher is None:
            return
        following = fetcher.all.pop(name)
        fetcher.due.pop(name, None)
        fetcher.backing_off.pop(name, None)
        fetcher.forgotten[name] = following.partition.log.topic_id

    def pump(self, now: Time) -> None:
        """Send a request for every fetcher that has work and no request in flight."""
        self._throttle.room(now.mono)
        is_due = self.alarm.at < NEVER
        for fetcher in list(self._fetchers.values()):
            if fetcher.backing_off:
                self._end_backoff(fetcher, now.mono)
            if not fetcher.busy:
                self._send_next(fetcher, now.mono)
            is_due = is_due or not fetcher.busy or bool(fetcher.backing_off)
        if is_due:  # else the answers of leaders come first
            self.alarm.set(self.next_deadline)

    def _send_next(self, fetcher: Fetcher, now: int) -> None:
        if not fetcher.all:
            self._leave_leader(fetcher)
        elif fetcher.has_work and fetcher.retry_at <= now:
            fetcher.retry_at = 0
            self._request_epochs(fetcher)
            self._fetch(fetcher, now)

    def _leave_leader(self, fetcher: Fetcher) -> None:
        """Nothing is fetched from it any more: end the session, or partitions keep marking themselves dirty in it."""
        del self._fetchers[fetcher.leader]
        if fetcher.session:
            state = ReplicaState(replica_id=self._broker_id, replica_epoch=self.broker_epoch)
            end = FetchRequest(replica_state=state, session_id=fetcher.session, session_epoch=FINAL_EPOCH)
            self._effects.append(PeerRequest(fetcher.leader, end, END_OWNER, 0))

    def _end_backoff(self, fetcher: Fetcher, now: int) -> None:
        for name in [name for name, until in fetcher.backing_off.items() if until <= now]:
            del fetcher.backing_off[name]
            fetcher.due[name] = None

    def _fetch(self, fetcher: Fetcher, now: int) -> None:
        requested = [name for name in fetcher.due if not self._must_wait(fetcher, name, now)]
        for name in requested:
            del fetcher.due[name]
        for name in fetcher.due:
            fetcher.leave_session(name)  # or the leader sends again what waits for its flush
        if not requested and not any(following.in_session for following in fetcher.all.values()):
            return
        config = self._config
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=self.broker_epoch),
            max_wait_ms=self._max_wait_ms(fetcher, now),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=fetcher.session,
            session_epoch=fetcher.session_epoch,
            topics=self._topics(fetcher, requested),
            forgotten_topics_data=_forgotten(fetcher, set(requested)),
        )
        fetcher.forgotten.clear()
        fetcher.busy = True
        self._effects.append(PeerRequest(fetcher.leader, request, OWNER, fetcher.leader))

    def _must_wait(self, fetcher: Fetcher, name: TopicPartition, now: int) -> bool:
        """For room, for an answer on epochs (older generations), for a flush that the topic demands (rule 2), or for
        the throttle."""
        partition = fetcher.all[name].partition
        needs_epoch_end = isinstance(partition.role, Follower) and partition.role.needs_epoch_end
        if partition.full or needs_epoch_end or partition.durable_end < partition.log.log_end_offset:
            return True
        return self._is_throttled(fetcher, name) and not self._throttle.room(now)

    def _is_throttled(self, fetcher: Fetcher, name: TopicPartition) -> bool:
        """A replica that is not in sync, as far as it knows, and is not to be copied too fast (KIP-73)."""
        following = fetcher.all[name]
        return following.behind and self._throttle.covers(following.partition)

    def _max_wait_ms(self, fetcher: Fetcher, now: int) -> int:
        """How long the leader may hold the request: throttled partitions wait for the next one."""
        longest = self._config.replica_fetch_wait_max_ms
        free_at = self._free_at(fetcher)
        return longest if free_at is None else min(longest, max(1, free_at - now))

    def _free_at(self, fetcher: Fetcher) -> int | None:
        """When the throttle has room again for the partitions that it delays; None if it delays none."""
        free_at = self._throttle.free_at
        held = free_at is not None and any(self._is_throttled(fetcher, name) for name in fetcher.due)
        return free_at if held else None

    def _topics(self, fetcher: Fetcher, names: Iterable[TopicPartition]) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for name in names:
            following = fetcher.all[name]
            partition = following.partition
            following.epoch = partition.epoch
            following.in_session = True
            log = partition.log
            leader_epoch, last_epoch = partition.generation.fetched_epochs(partition.epoch, log.epochs.latest)
            if log.topic_id not in topics:
                topics[log.topic_id] = FetchTopic(topic=name.topic, topic_id=log.topic_id, partitions=[])
            topics[log.topic_id].partitions.append(
                FetchPartition(
                    partition=name.partition,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=log.log_end_offset,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=log.log_start_offset,
                    partition_max_bytes=self._config.replica_fetch_max_bytes,
                )
            )
        return list(topics.values())

    def answered(self, leader: int, response: FetchResponse | None, now: Time) -> None:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            return
        fetcher.busy = False
        if response is None:
            fetcher.reset()
            fetcher.retry_at = now.mono + MIN_BACKOFF_MS * 5
            return
        if response.error_code:
            fetcher.session = 0
            fetcher.reset()
            return
        if response.session_id != fetcher.session:
            fetcher.session, fetcher.session_epoch = response.session_id, 0
        if fetcher.session:
            fetcher.session_epoch = 1 if fetcher.session_epoch == LARGEST_EPOCH else fetcher.session_epoch + 1
        else:
            fetcher.reset()
        for topic in response.responses:
            name = self._replicas.topic_name(topic.topic_id) or topic.topic
            for data in topic.partitions:
                following = fetcher.all.get(TopicPartition(name, data.partition_index))
                if following is not None:
                    self._take(fetcher, following, data, now)

    def _take(self, fetcher: Fetcher, following: Following, data: PartitionData, now: Time) -> None:
        partition = following.partition
        if partition.epoch != following.epoch or not isinstance(partition.role, Follower):
            return
        try:
            self._apply(fetcher, following, data, now)
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            partition.after_append(now)  # the first segments of the answer may be appended
            if partition.full:
                fetcher.due[partition.name] = None
        except (ApiError, CorruptLog) as error:
            self._event("fetch.refused", partition, reason=str(error))
            self._back_off(fetcher, following, now)

    def _apply(self, fetcher: Fetcher, following: Following, data: PartitionData, now: Time) -> None:
        partition = following.partition
        if _starts_over(partition.log, data):
            self._event("log.start_over", partition, offset=data.log_start_offset)
            partition.start_over_at(data.log_start_offset)
            self._replicas.truncated = True
        elif data.error_code:
            self._back_off(fetcher, following, now)
            return
        elif data.diverging_epoch.end_offset >= 0:
            self._reconcile(partition, EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))
        else:
            following.backoff_ms = MIN_BACKOFF_MS
            records = data.records
            assert isinstance(records, bytes | memoryview)
            start = partition.log.log_start_offset
            partition.append_from_leader(records, data.high_watermark, data.log_start_offset, now)
            following.behind = data.high_watermark > partition.log.log_end_offset
            if self._throttle.covers(partition):
                self._throttle.spend(len(records), now.mono)
            if len(records) == 0 and partition.log.log_start_offset == start:
                return
        fetcher.due[partition.name] = None

    def _reconcile(self, partition: Partition, leader: EpochEnd) -> bool:
        """Truncate the log to where the leader's agrees with it; returns whether that point is final (rule 5)."""
        before = partition.log.log_end_offset
        truncation = partition.reconcile(leader)
        if partition.log.log_end_offset < before:
            self._replicas.truncated = True
            self._event(
                "log.truncate", partition, before=before, offset=truncation.offset, leader_epoch=partition.epoch
            )
        return truncation.completed

    def _back_off(self, fetcher: Fetcher, following: Following, now: Time) -> None:
        """Leave the partition out for a while, longer each time in a row."""
        name = following.partition.name
        fetcher.due.pop(name, None)
        fetcher.backing_off[name] = now.mono + following.backoff_ms
        fetcher.leave_session(name)
        following.backoff_ms = min(2 * following.backoff_ms, self._config.replica_fetch_backoff_ms)

    def _request_epochs(self, fetcher: Fetcher) -> None:
        """Older generations compare the logs' ends by OffsetsForLeaderEpoch before they fetch (KIP-101, KIP-279)."""
        topics = []
        for name in fetcher.due:
            partition = fetcher.all[name].partition
            if isinstance(partition.role, Follower) and partition.role.needs_epoch_end:
                latest = partition.log.epochs.latest
                requested = epochs.OffsetForLeaderPartition(partition=name.partition, leader_epoch=latest)
                topics.append(epochs.OffsetForLeaderTopic(topic=name.topic, partitions=[requested]))
        if topics:
            request = epochs.OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=topics)
            self._effects.append(PeerRequest(fetcher.leader, request, EPOCHS_OWNER, fetcher.leader))
            fetcher.retry_at = NEVER

    def epochs_answered(self, leader: int, response: epochs.OffsetForLeaderEpochResponse | None, now: Time) -> None:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            return
        fetcher.retry_at = now.mono if response else now.mono + MIN_BACKOFF_MS * 5
        for topic in response.topics if response else ():
            for answer in topic.partitions:
                following = fetcher.all.get(TopicPartition(topic.topic, answer.partition))
                role = following.partition.role if following else None
                if following is None or not isinstance(role, Follower):
                    continue
                if answer.error_code:
                    self._back_off(fetcher, following, now)
                    continue
                try:
                    completed = self._reconcile(following.partition, EpochEnd(answer.leader_epoch, answer.end_offset))
                except DiskFailed as failure:
                    self._replicas.disk_failed(failure)
                    continue
                role.needs_epoch_end = not completed

    def _event(self, kind: str, partition: Partition, **fields: Any) -> None:
        self._effects.append(Event(kind, {"partition": str(partition.name), "broker": self._broker_id, **fields}))

    @property
    def next_deadline(self) -> int | None:
        moments: list[int] = []
        for fetcher in self._fetchers.values():
            moments += fetcher.backing_off.values()
            if not fetcher.busy:
                if fetcher.has_work and fetcher.retry_at:
                    moments.append(fetcher.retry_at)
                if (free_at := self._free_at(fetcher)) is not None:
                    moments.append(free_at)
        return min(moments, default=None)


def _starts_over(log: Log, data: PartitionData) -> bool:
    """Whether nothing of this log can stay: the leader's begins beyond its end, or the logs diverge below its start. Or
    they diverge at or below the leader's start, which may be inside a batch that would not follow on these records."""
    if data.error_code:
        return data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > log.log_end_offset
    parts_at, start = data.diverging_epoch.end_offset, log.log_start_offset
    return 0 <= parts_at < start or start < parts_at <= data.log_start_offset


def _forgotten(fetcher: Fetcher, requested: Collection[TopicPartition]) -> list[ForgottenTopic]:
    if not fetcher.session_epoch:
        return []
    topics: dict[bytes, ForgottenTopic] = {}
    for name, topic_id in fetcher.forgotten.items():
        if name not in requested:
            topic = topics.setdefault(topic_id, ForgottenTopic(topic=name.topic, topic_id=topic_id, partitions=[]))
            topic.partitions.append(name.partition)
    return list(topics.values())
