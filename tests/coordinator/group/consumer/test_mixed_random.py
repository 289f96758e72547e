"""Members of both protocols come to one group, change over and go, while appends fail, answers are late and coordinators
change: no partition is ever with two members that the coordinator counts, and left in peace the group comes to rest, as
one kind of group or the other."""

from random import Random

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster, ConsumerHarness, SimulatedMember
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.coordinator.group.consumer import embedded
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.groups.consumer_protocol import ConsumerProtocolSubscription

STEPS = 150
PARTITIONS = 6
FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class Classic:
    """A client of the classic protocol with an eager assignor: it gives everything up before it joins, and has what its
    last answer to SyncGroup said. As a leader it shares all partitions out."""

    def __init__(self, harness: ConsumerHarness, name: str, instance: str | None):
        self.harness, self.name, self.instance = harness, name, instance
        self.forget()

    def forget(self):
        self.member_id, self.generation, self.owned = "", -1, set()
        self.next, self.others = "join", []

    def request(self):
        who = {"group_id": "g", "member_id": self.member_id, "group_instance_id": self.instance}
        if self.next == "join":
            self.owned = set()
            said = ConsumerProtocolSubscription(topics=["t"])
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + codec.encode(said, 1))
            more = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
            return JoinGroupRequest(**who, **more, protocols=[protocol]), 9
        who["generation_id"] = self.generation
        if self.next == "sync":
            assignments = [SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in self.shares()]
            return SyncGroupRequest(**who, protocol_type="consumer", protocol_name="range", assignments=assignments), 5
        return HeartbeatRequest(**who), 4

    def shares(self):
        topic = self.harness.cluster.id("t")
        count = len(self.harness.cluster.topics["t"].partitions)
        for place, member in enumerate(self.others):
            numbers = {(topic, number) for number in range(place, count, len(self.others))}
            yield member, embedded.write_assignment(self.harness.cluster, numbers, 1)

    def learn(self, answer):
        code = ErrorCode(answer.error_code)
        if code in FORGOTTEN:
            self.forget()
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.next = "join"
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code == ErrorCode.NONE and self.next == "join":
            self.member_id, self.generation, self.next = answer.member_id, answer.generation_id, "sync"
            self.others = [member.member_id for member in answer.members]
        elif code == ErrorCode.NONE and self.next == "sync":
            assignment = embedded.read_assignment(answer.assignment)
            self.owned = embedded.known_partitions(self.harness.cluster, assignment.assigned_partitions)
            self.next = "beat"
        elif code != ErrorCode.NONE:
            self.next = "join" if self.next == "join" else self.next

    def leaving(self):
        member = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        return LeaveGroupRequest(group_id="g", members=[member]), 5


class Run:
    def __init__(self, seed: int):
        self.random = Random(seed)
        self.harness = ConsumerHarness({"group.initial.rebalance.delay.ms": "0"}, cluster=Cluster(t=PARTITIONS))
        self.born = 0
        self.waiting = {}
        self.seats = [self.newcomer(seat) for seat in range(4)]

    def newcomer(self, seat: int):
        self.born += 1
        instance = "i" if seat == 0 else None
        if self.random.random() < 0.5:
            return Classic(self.harness, f"m{self.born}", instance)
        stubborn = self.random.random() < 0.3
        return SimulatedMember(self.harness, f"m{self.born}", topics=("t",), instance=instance, stubborn=stubborn)

    def step(self):
        seat = self.random.randrange(len(self.seats))
        act = [self.send] * 20 + [self.give_up, self.leave, self.change_over, self.crash, self.lose, self.pass_time]
        act += [self.pass_time, self.hold, self.release, self.release, self.refuse, self.failover]
        self.random.choice(act)(seat)
        self.collect()
        self.check()

    def send(self, seat):
        who = self.seats[seat]
        if who in self.waiting:
            return
        if isinstance(who, Classic):
            request, version = who.request()
        else:
            request, version = ConsumerGroupHeartbeatRequest(**who.request()), 1
        self.waiting[who] = self.harness.send(request, version)

    def give_up(self, seat):
        if isinstance(self.seats[seat], SimulatedMember):
            self.seats[seat].give_up()

    def leave(self, seat):
        who = self.seats[seat]
        self.waiting.pop(who, None)
        if isinstance(who, Classic):
            self.harness.send(*who.leaving())
        else:
            epoch = -2 if who.instance else -1
            request = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=who.name, member_epoch=epoch, instance_id=who.instance
            )
            self.harness.send(request, 1)
        self.seats[seat] = self.newcomer(seat)

    def change_over(self, seat):
        """The process restarts with the other protocol; a static member leaves nothing behind it."""
        if self.seats[seat].instance is None:
            self.leave(seat)
        else:
            self.crash(seat)

    def crash(self, seat):
        self.waiting.pop(self.seats[seat], None)
        self.seats[seat] = self.newcomer(seat)

    def lose(self, seat):
        who = self.seats[seat]
        if self.waiting.pop(who, None) is not None:
            if isinstance(who, SimulatedMember):
                who.says_all = True
            else:
                who.next = "join"

    def pass_time(self, _):
        self.harness.pass_time(self.random.choice((1, 1_000, 4_000, 11_000)))

    def hold(self, _):
        self.harness.holding = True

    def release(self, _):
        self.harness.release()

    def refuse(self, _):
        self.harness.refusing = self.random.choice((None, None, ErrorCode.NOT_ENOUGH_REPLICAS))

    def failover(self, _):
        self.harness.resign()
        self.collect()
        self.harness = self.harness.failover()
        for seat, who in enumerate(self.seats):
            self.lose(seat)
            who.harness = self.harness

    def collect(self):
        for who, token in list(self.waiting.items()):
            if token in self.harness.answers:
                del self.waiting[who]
                who.learn(self.harness.answers[token])

    def counted(self):
        """Those that the coordinator takes for members, in the generation that it takes them to be in: a group that goes
        back to the classic protocol and is upgraded again before its members have joined anew is, as Kafka's, a new
        generation to them, in which they have nothing yet and may not commit."""
        machine = self.harness.machine
        group, classic = machine.consumers.newest.get("g"), machine.groups.get("g")
        epochs = {} if group is None else {name: member.current.epoch for name, member in group.members.items()}
        if classic is not None and classic.is_in(ClassicGroupState.STABLE):
            epochs = dict.fromkeys(classic.members, classic.generation)
        for who in self.seats:
            if epochs.get(who.member_id) == who.generation if isinstance(who, Classic) else who.name in epochs:
                yield who

    def check(self):
        owned = [(place, who) for who in self.counted() for place in who.owned]
        assert len(owned) == len({place for place, _ in owned}), owned

    def rest(self):
        self.harness.refusing = None
        self.harness.release()
        self.collect()
        for seat in range(len(self.seats)):
            self.lose(seat)
            if isinstance(self.seats[seat], SimulatedMember):
                self.seats[seat].stubborn = False
        for _ in range(90):
            for seat in self.random.sample(range(4), 4):
                self.give_up(seat)
                self.send(seat)
                self.collect()
                self.check()
            self.harness.pass_time(1_000)
            self.collect()
        count = len(self.harness.cluster.topics["t"].partitions)
        assert sorted(number for who in self.seats for _, number in who.owned) == list(range(count))
        kind, state = self.harness.listed()["g"]
        assert state == "Stable"
        assert (kind == "classic") == all(isinstance(who, Classic) for who in self.seats)


@pytest.mark.parametrize("seed", range(40))
def test_members_of_both_protocols_share_and_come_to_rest(seed):
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.rest()
