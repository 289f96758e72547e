"""A group's coordinator as one client meets it; other members are phantoms that want what they are told to want."""

from tests.client.ground import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tidelog.client.group.assignors import ASSIGNORS, Subscription
from tidelog.client.group.classic_requests import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


class Coordinator:
    """`mood(key, broker)` may name an error for the next answers; `log` holds what happened, in order."""

    def __init__(self, ground):
        self.ground = ground
        self.generation = 0
        self.member = ""
        self.next_member = 1
        self.protocol = ""
        self.phantoms = {}
        self.given = {}
        self.committed = {}
        self.epochs = {}
        self.log = []
        self.is_rebalancing = False
        self.skips = False  # a static leader is back: what was given before stays
        self.mood = lambda _key, _broker: ErrorCode.NONE
        ground.handlers |= {
            JOIN_GROUP: self.join,
            SYNC_GROUP: self.sync,
            HEARTBEAT: self.heartbeat,
            LEAVE_GROUP: self.leave,
            OFFSET_COMMIT: self.commit,
            OFFSET_FETCH: self.fetch,
        }

    def _code(self, key, broker, member=None):
        if broker != self.ground.coordinator:
            return ErrorCode.NOT_COORDINATOR
        code = self.mood(key, broker)
        if code is ErrorCode.NONE and member is not None and member != self.member:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return code

    def join(self, broker, request, reply):
        code = self._code(JOIN_GROUP, broker, request.member_id or None)
        if code is not ErrorCode.NONE:
            reply(JoinGroupResponse(error_code=code))
        elif not request.member_id and request.group_instance_id is None:
            self.member = f"member-{self.next_member}"
            self.next_member += 1
            reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=self.member))
        else:
            self._accept(request, reply)

    def _accept(self, request, reply):
        self.member = request.member_id or "static"
        self.generation += 1
        self.is_rebalancing = False
        self.protocol = request.protocols[0].name
        mine = decode_subscription(ASSIGNORS[self.protocol], request.protocols[0].metadata)
        self.log.append(("join", sorted(mine.owned)))
        members = [
            JoinGroupResponseMember(
                member_id=self.member,
                group_instance_id=request.group_instance_id,
                metadata=request.protocols[0].metadata,
            )
        ]
        for name, topics in self.phantoms.items():
            owned = frozenset(self.given.get(name, ())) if ASSIGNORS[self.protocol].is_cooperative else frozenset()
            wants = Subscription(frozenset(topics), owned, self.generation - 1)
            metadata = encode_subscription(ASSIGNORS[self.protocol], wants, ())
            members.append(JoinGroupResponseMember(member_id=name, metadata=metadata))
        reply(
            JoinGroupResponse(
                generation_id=self.generation,
                protocol_type="consumer",
                protocol_name=self.protocol,
                leader=self.member,
                member_id=self.member,
                members=members,
                skip_assignment=self.skips,
            )
        )

    def sync(self, broker, request, reply):
        code = self._code(SYNC_GROUP, broker, request.member_id)
        if code is ErrorCode.NONE and request.generation_id != self.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if code is not ErrorCode.NONE:
            reply(SyncGroupResponse(error_code=code))
            return
        if self.skips and not request.assignments:
            self.log.append(("sync", sorted(self.given[self.member])))
            reply(SyncGroupResponse(assignment=encode_assignment(self.given[self.member])))
            return
        self.given = {given.member_id: decode_assignment(given.assignment) for given in request.assignments}
        mine = next(given.assignment for given in request.assignments if given.member_id == self.member)
        self.log.append(("sync", sorted(self.given[self.member])))
        reply(SyncGroupResponse(protocol_type="consumer", protocol_name=self.protocol, assignment=mine))

    def heartbeat(self, broker, request, reply):
        code = self._code(HEARTBEAT, broker, request.member_id)
        if code is ErrorCode.NONE and request.generation_id != self.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if code is ErrorCode.NONE and self.is_rebalancing:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        reply(HeartbeatResponse(error_code=code))

    def leave(self, _broker, request, reply):
        self.log.append(("leave", request.members[0].member_id))
        reply(LeaveGroupResponse())

    def commit(self, broker, request, reply):
        code = self._code(OFFSET_COMMIT, broker, request.member_id or None)
        if code is ErrorCode.NONE and request.generation_id_or_member_epoch not in (-1, self.generation):
            code = ErrorCode.ILLEGAL_GENERATION
        topics = []
        for topic in request.topics:
            name = topic.name or next(n for n, known in self.ground.topic_ids.items() if known == topic.topic_id)
            partitions = []
            for wanted in topic.partitions:
                if code is ErrorCode.NONE:
                    self.committed[TopicPartition(name, wanted.partition_index)] = wanted.committed_offset
                partitions.append(
                    OffsetCommitResponsePartition(partition_index=wanted.partition_index, error_code=code)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        if code is ErrorCode.NONE:
            self.log.append(("commit", dict(self.committed)))
        reply(OffsetCommitResponse(topics=topics))

    def fetch(self, broker, request, reply):
        (group,) = request.groups
        code = self._code(OFFSET_FETCH, broker)
        topics = [self._fetched(topic) for topic in group.topics]
        answer = OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)
        reply(OffsetFetchResponse(groups=[answer]))

    def _fetched(self, topic):
        known = {topic_id: name for name, topic_id in self.ground.topic_ids.items()}
        name = topic.name or known.get(topic.topic_id, "")
        return OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=number,
                    committed_offset=self.committed.get(TopicPartition(name, number), -1),
                    committed_leader_epoch=self.epochs.get(TopicPartition(name, number), -1),
                    metadata="",
                    error_code=ErrorCode.NONE if name else ErrorCode.UNKNOWN_TOPIC_ID,
                )
                for number in topic.partition_indexes
            ],
        )
