"""A group coordinator under test: a log that appends at once, a high watermark that a test may hold back, and time that
moves from one deadline to the next."""

from collections import deque
from collections.abc import Iterable
from itertools import count

from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.group import Caller, GroupCoordinator
from tidelog.effects import Append, Event, Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.records import header, records, stamp

WALL = 1_700_000_000_000
START = Time(0, WALL)
NEWEST = {"join": 9, "commit": 9, "fetch": 9, "describe": 6}


def subscription(*topics: str, version: int = 0) -> bytes:
    """A ConsumerProtocolSubscription, as a consumer's metadata."""
    names = b"".join(len(name).to_bytes(2, "big") + name for name in (topic.encode() for topic in topics))
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + (-1).to_bytes(4, "big", signed=True)


def entropy(first=1):
    numbers = count(first)
    return lambda size: next(numbers).to_bytes(size, "big")


class PartitionLog:
    """One partition of the group topic."""

    def __init__(self, batches: Iterable[bytes] = ()):
        self.batches = list(batches)
        self.end = header(self.batches[-1]).next_offset if self.batches else 0
        self.high_watermark = self.end

    def append(self, batch: bytes) -> tuple[int, int]:
        buffer = bytearray(batch)
        stamp(buffer, 0, self.end, 0)
        self.batches.append(bytes(buffer))
        first, self.end = self.end, header(buffer).next_offset
        return first, self.end - 1

    def below_high_watermark(self) -> list[bytes]:
        return [batch for batch in self.batches if header(batch).next_offset <= self.high_watermark]

    def keys_and_values(self):
        return [(record.key, record.value) for batch in self.batches for record in records(batch)]


class GroupHarness:
    """`holding` keeps the high watermark where it is; `refusing` makes every append fail with the code."""

    may_describe = None
    """What the clients may know of; None: of every topic."""

    def __init__(
        self,
        options: dict[str, str] | None = None,
        *,
        log: PartitionLog | None = None,
        now: Time = START,
        cluster=None,
        life=0,
    ):
        """`life` tells one coordinator's random numbers from those of the one before it."""
        self.cluster = cluster
        self.life = life
        self.options = {"offsets.topic.num.partitions": "1", **(options or {})}
        self.coordinator = GroupCoordinator(
            BrokerConfig(self.options),
            entropy=entropy(1 + 1000 * (log.end if log else 0) + (life << 64)),
            cluster=cluster,
        )
        self.now = now
        self.logs = {0: log or PartitionLog()}
        self.holding = False
        self.refusing: ErrorCode | None = None
        self.answers: dict[int, object] = {}
        self.events: list[Event] = []
        self.wakes = 0
        self.tokens = count(1)
        for partition in range(int(self.options["offsets.topic.num.partitions"])):
            self.logs.setdefault(partition, PartitionLog())
            self.lead(partition)

    @property
    def log(self) -> PartitionLog:
        return self.logs[0]

    @property
    def machine(self):
        return self.coordinator.machines()[0]

    # The node's part.

    def carry_out(self, effects):
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, Reply):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.response
            elif isinstance(effect, Append):
                waiting.extend(self.append(effect))
            else:
                assert isinstance(effect, Event)
                self.events.append(effect)
        for machine in self.coordinator.machines():
            machine.check_invariants()

    def append(self, effect):
        if self.refusing is not None:
            return self.coordinator.append_failed(effect.token, self.refusing, self.now)
        log = self.logs[effect.partition.partition]
        first, last = log.append(effect.batch)
        effects = self.coordinator.appended(effect.token, first, last, self.now)
        if not self.holding:
            log.high_watermark = log.end
            effects += self.coordinator.committed(effect.partition.partition, log.end, self.now)
        return effects

    def release(self):
        """The followers caught up."""
        self.holding = False
        for partition, log in self.logs.items():
            log.high_watermark = log.end
            self.carry_out(self.coordinator.committed(partition, log.end, self.now))

    def lead(self, partition=0, epoch=0):
        self.start_loading(partition, epoch)
        self.finish_loading(partition)

    def start_loading(self, partition=0, epoch=0):
        self.carry_out(self.coordinator.elected(partition, epoch, self.now))

    def finish_loading(self, partition=0):
        log = self.logs[partition]
        for batch in log.batches:
            self.carry_out(self.coordinator.load(partition, [batch], self.now))
        self.carry_out(self.coordinator.loaded(partition, self.now))
        self.carry_out(self.coordinator.committed(partition, log.high_watermark, self.now))

    def resign(self, partition=0):
        self.carry_out(self.coordinator.resigned(partition, self.now))

    def failover(self) -> "GroupHarness":
        """Another broker takes over with what the log has below the high watermark."""
        log = PartitionLog(self.log.below_high_watermark())
        return type(self)(self.options, log=log, now=self.now, cluster=self.cluster, life=self.life + 1)

    def pass_time(self, ms: int):
        end = self.now.mono + ms
        while (deadline := self.coordinator.next_deadline) is not None and deadline <= end:
            self.set_time(max(deadline, self.now.mono))
            self.wakes += 1
            self.carry_out(self.coordinator.wake(self.now))
        self.set_time(end)

    def set_time(self, mono: int):
        self.now = Time(mono, self.now.wall + mono - self.now.mono)

    # Clients.

    def send(self, request, version: int = 0, client_id: str = "client") -> int:
        token = next(self.tokens)
        caller = Caller(client_id, "/127.0.0.1", version, len(self.logs), self.may_describe)
        self.carry_out(self.coordinator.handle(token, request, caller, self.now))
        return token

    def ask(self, request, version: int = 0, client_id: str = "client"):
        token = self.send(request, version, client_id)
        assert token in self.answers, f"{request} was not answered"
        return self.answers[token]

    def join(
        self,
        member_id="",
        *,
        group="g",
        instance=None,
        protocols=None,
        version=9,
        session=10_000,
        rebalance=60_000,
        kind="consumer",
    ):
        """Send a JoinGroup and return its token."""
        protocols = protocols or {"range": subscription("t")}
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()],
        )
        return self.send(request, version)

    def new_member(self, **how) -> str:
        """The id that a new dynamic member is given."""
        answer = self.answers[self.join(**how)]
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def sync(self, member_id, generation, assignments=None, *, group="g", instance=None, **named):
        """Send a SyncGroup and return its token."""
        given = [
            SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in (assignments or {}).items()
        ]
        return self.send(
            SyncGroupRequest(
                group_id=group,
                member_id=member_id,
                generation_id=generation,
                group_instance_id=instance,
                assignments=given,
                **named,
            ),
            5,
        )

    def heartbeat(self, member_id, generation, *, group="g", instance=None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, member_id=member_id, generation_id=generation, group_instance_id=instance
        )
        return ErrorCode(self.ask(request).error_code)

    def leave(self, *members, group="g"):
        """Members are ids, or (id, instance id)."""
        pairs = [(member, None) if isinstance(member, str) else member for member in members]
        identities = [MemberIdentity(member_id=who, group_instance_id=instance) for who, instance in pairs]
        answer = self.ask(LeaveGroupRequest(group_id=group, members=identities))
        return [ErrorCode(member.error_code) for member in answer.members] or ErrorCode(answer.error_code)

    def stable(self, *count_or_ids, count=1, group="g", **how) -> tuple[list[str], int]:
        """Bring a new group of so many members to its first generation; ids, the leader first, and generation."""
        ids = [self.new_member(group=group, **how) for _ in range(count)]
        tokens = [self.join(member_id, group=group, **how) for member_id in ids]
        self.pass_time(6_000)
        answers = [self.answers[token] for token in tokens]
        assert all(answer.error_code == ErrorCode.NONE for answer in answers)
        leader, generation = answers[0].leader, answers[0].generation_id
        syncs = [self.sync(who, generation, group=group) for who in ids if who != leader]
        syncs.append(self.sync(leader, generation, {who: who.encode() for who in ids}, group=group))
        assert all(self.answers[token].error_code == ErrorCode.NONE for token in syncs)
        return [leader, *(who for who in ids if who != leader)], generation

    def commit(
        self,
        positions: dict[tuple[str, int], int],
        *,
        member="",
        generation=-1,
        group="g",
        metadata="",
        version=9,
        retention=-1,
        topic_id=bytes(16),
    ):
        """Send an OffsetCommit and return its token."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), offset in positions.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, topic_id=topic_id))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            retention_time_ms=retention,
            topics=list(topics.values()),
        )
        return self.send(request, version)

    def commit_codes(self, *arguments, **named) -> list[ErrorCode]:
        answer = self.answers[self.commit(*arguments, **named)]
        return [ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions]

    def fetch(self, group="g", topics: dict[str, list[int]] | None = None, *, stable=False, topic_id=bytes(16)) -> int:
        """Send an OffsetFetch and return its token."""
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=asked)], require_stable=stable
        )
        return self.send(request, 9)

    def positions(self, group="g", topics: dict[str, list[int]] | None = None, **how) -> dict[tuple[str, int], int]:
        """What an OffsetFetch returns."""
        (answer,) = self.answers[self.fetch(group, topics, **how)].groups
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
        }
