"""Any sequence of heartbeats, silences, refused appends, answers that are lost or late, topics that change and
failovers, with members of both protocols' ways of giving partitions up: at once or when it suits them.

- No partition is ever with two members that the coordinator counts as such.
- What replay makes of the log is what the coordinator works with.
- Left in peace, the group comes to rest: stable, and every partition that somebody subscribes to is with somebody.
"""

from random import Random

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster, ConsumerHarness, SimulatedMember
from tests.coordinator.group.harness import PartitionLog
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.records import Record, build

STEPS = 120
SUBSCRIPTIONS = ((("t",), None), (("t", "u"), None), (("u", "v"), None), ((), "[tv]"), (("u",), "t.*"))


class Run:
    def __init__(self, seed: int):
        self.random = Random(seed)
        self.harness = ConsumerHarness(cluster=Cluster(t=5, u=3))
        self.seats = [self.newcomer(number) for number in range(5)]
        self.waiting: dict[SimulatedMember, int] = {}
        self.born = len(self.seats)

    def newcomer(self, number: int) -> SimulatedMember:
        topics, pattern = self.random.choice(SUBSCRIPTIONS)
        return SimulatedMember(
            self.harness,
            f"m{number}",
            topics=topics,
            pattern=pattern,
            instance=f"i{number % 5}" if number % 2 else None,
            assignor=self.random.choice((None, "uniform", "range")),
            stubborn=self.random.random() < 0.5,
        )

    def step(self):
        seat = self.random.randrange(len(self.seats))
        actions = [self.beat] * 12 + [self.give_up] * 4 + [self.resubscribe, self.leave, self.crash, self.lose]
        actions += [
            self.pass_time,
            self.change_topics,
            self.hold,
            self.release,
            self.release,
            self.refuse,
            self.failover,
        ]
        self.random.choice(actions)(self.seats[seat], seat)
        self.collect()
        self.check()

    def send(self, person: SimulatedMember, **fields):
        if person not in self.waiting:
            request = ConsumerGroupHeartbeatRequest(**person.request(**fields))
            self.waiting[person] = self.harness.send(request, 1)

    def beat(self, person, seat):
        self.send(person)

    def give_up(self, person, seat):
        person.give_up()

    def resubscribe(self, person, seat):
        person.topics, person.pattern = self.random.choice(SUBSCRIPTIONS)
        names, timeout = list(person.topics), person.rebalance_timeout_ms
        pattern = person.pattern or ""
        self.send(person, subscribed_topic_names=names, subscribed_topic_regex=pattern, rebalance_timeout_ms=timeout)

    def leave(self, person, seat):
        """A static member is back under another id."""
        self.waiting.pop(person, None)
        self.harness.send(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=person.name,
                member_epoch=-2 if person.instance else -1,
                instance_id=person.instance,
            ),
            1,
        )
        self.replace(seat)

    def crash(self, person, seat):
        self.waiting.pop(person, None)
        self.replace(seat)

    def replace(self, seat):
        self.seats[seat] = self.newcomer(self.born * 5 + seat)
        self.born += 1

    def lose(self, person, seat):
        """The answer never comes, so that the client says again all that it has."""
        if self.waiting.pop(person, None) is not None:
            person.says_all = True

    def pass_time(self, person, seat):
        self.harness.pass_time(self.random.choice((1, 500, 5_000, 20_000)))

    def change_topics(self, person, seat):
        name = self.random.choice("tuv")
        cluster = self.harness.cluster
        if name not in cluster.topics:
            cluster.make(name, self.random.randint(1, 4))
        elif self.random.random() < 0.5:
            cluster.topics[name].partitions[len(cluster.topics[name].partitions)] = None
        elif name != "u":
            cluster.delete(name)
        self.harness.change_topics(name)

    def hold(self, person, seat):
        self.harness.holding = True

    def release(self, person, seat):
        self.harness.release()

    def refuse(self, person, seat):
        self.harness.refusing = self.random.choice((None, ErrorCode.NOT_ENOUGH_REPLICAS))

    def failover(self, person, seat):
        before, is_held = lasting(self.harness), self.harness.holding
        self.harness.resign()
        self.harness = self.harness.failover()
        assert is_held or lasting(self.harness) == before
        for each in list(self.waiting):
            self.lose(each, None)
        for each in self.seats:
            each.harness = self.harness

    def collect(self):
        for person, token in list(self.waiting.items()):
            if token in self.harness.answers:
                person.learn(self.harness.answers[token])
                del self.waiting[person]

    def check(self):
        group = self.harness.machine.consumers.newest.get("g")
        members = {} if group is None else group.members
        counted = [person for person in self.seats if person.name in members]
        owned = [place for person in counted for place in person.owned]
        assert len(owned) == len(set(owned)), counted

    def rest(self):
        self.harness.refusing = None
        self.harness.release()
        for person in list(self.waiting):
            self.lose(person, None)
        self.harness.pass_time(20_000)
        for _ in range(3):
            for person in self.seats:
                person.stubborn = False
                person.give_up()
                person.beat()
            self.harness.pass_time(20_000)
        for _ in range(2):
            self.harness.settle(*self.seats, rounds=40)
            self.harness.pass_time(11_000)
        self.check()
        assert self.harness.state() == "Stable"
        cluster, group = self.harness.cluster, self.harness.consumer_group()
        assert group.members.keys() == {person.name for person in self.seats}
        wanted = {
            (cluster.id(name), number)
            for name in group.subscribed_topics() & cluster.topics.keys()
            for number in cluster.topics[name].partitions
        }
        assert {place for person in self.seats for place in person.owned} == wanted


def lasting(harness: ConsumerHarness):
    groups = harness.machine.consumers.newest.values()
    return [
        {name: value for name, value in vars(group).items() if name != "_topics"}
        for group in sorted(groups, key=lambda group: group.group_id)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_is_with_two_and_all_come_to_rest(seed):
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.rest()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("cleaned", [0.0, 0.6, 1.0], ids=["nothing", "a part", "everything"])
def test_a_compacted_log_says_the_same(seed, cleaned):
    """Of the cleaned part the last record of each key is left, and no tombstone."""
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.harness.release()
    written = run.harness.log.keys_and_values()
    end = int(len(written) * cleaned)
    last = {key: place for place, (key, _) in enumerate(written[:end])}
    kept = [pair for place, pair in enumerate(written[:end]) if last[pair[0]] == place and pair[1] is not None]
    log = PartitionLog()
    log.append(build([Record(key=key, value=value) for key, value in [*kept, *written[end:]]]))
    log.high_watermark = log.end
    after = ConsumerHarness(run.harness.options, log=log, now=run.harness.now, cluster=run.harness.cluster)
    assert lasting(after) == lasting(run.harness)
    assert after.listed() == run.harness.listed()
