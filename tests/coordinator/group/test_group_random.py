"""Any sequence of requests, silences, refused appends, held-back high watermarks and failovers.

- Lasting state after a live run equals the state after a replay of the log (records say everything that replay needs).
- Every request is answered exactly once, at the latest when the coordinator resigns.
- I29: generations of a group ascend, no partition is assigned twice in one, an acknowledged commit is what is fetched
  after failover.
- The machine's own invariants hold after every input (`GroupHarness.carry_out` checks them).
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.coordinator.group.harness import GroupHarness, subscription
from tidelog.coordinator.group.offset_table import Committed
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.classic_group import JoinGroupResponse
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest

GROUPS = ("g", "h")
PROTOCOLS = (
    {"range": subscription("t")},
    {"range": subscription("t", "u"), "sticky": subscription("t")},
    {"sticky": subscription("u"), "range": subscription("u")},
)
PARTITIONS = ("0", "1", "2")
SESSION = 10_000

group = st.sampled_from(GROUPS)
client = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("settle"), group, client, st.integers(1, 4)),
    st.tuples(st.just("join"), group, client, st.integers(0, 2)),
    st.tuples(st.just("sync"), group, client, st.permutations(PARTITIONS)),
    st.tuples(st.just("heartbeat"), group, client, st.just(0)),
    st.tuples(st.just("leave"), group, client, st.just(0)),
    st.tuples(st.just("commit"), group, client, st.integers(0, 100)),
    st.tuples(st.just("admin_commit"), group, client, st.integers(0, 100)),
    st.tuples(st.just("delete"), group, client, st.just(0)),
    st.tuples(st.just("restart"), group, client, st.just(0)),
    st.tuples(st.just("time"), group, client, st.sampled_from((1, 1_000, 3_000, 5_000, 11_000))),
    st.tuples(st.just("hold"), group, client, st.just(0)),
    st.tuples(st.just("release"), group, client, st.just(0)),
    st.tuples(st.just("refuse"), group, client, st.booleans()),
    st.tuples(st.just("failover"), group, client, st.just(0)),
)


class Client:
    """What a client knows; odd ones are static members."""

    def __init__(self, number):
        self.instance = f"instance-{number}" if number % 2 else None
        self.forget()

    def forget(self):
        self.member, self.generation, self.leads, self.members = "", -1, False, []


class Run:
    def __init__(self):
        self.harness = GroupHarness({"group.initial.rebalance.delay.ms": "1000"})
        self.clients = {(name, number): Client(number) for name in GROUPS for number in range(4)}
        self.sent = {}
        self.attempts = {name: [None] for name in GROUPS}
        self.acknowledged = dict.fromkeys(GROUPS, 0)
        self.generations = dict.fromkeys(GROUPS, 0)
        self.assigned = {}

    def step(self, kind, name, number, argument):
        who = self.clients[name, number]
        getattr(self, kind)(name, who, argument)
        self.read_answers()

    # Clients.

    def join(self, name, who, protocols):
        token = self.harness.join(
            who.member,
            group=name,
            instance=who.instance,
            session=SESSION,
            rebalance=5_000,
            protocols=PROTOCOLS[protocols],
        )
        self.sent[token] = ("join", name, who)

    def sync(self, name, who, order):
        share = len(who.members) or 1
        assignments = {}
        if who.leads:
            parts = [",".join(order[place::share]) for place in range(share)]
            assignments = {member: part.encode() for member, part in zip(who.members, parts, strict=True)}
        token = self.harness.sync(who.member, who.generation, assignments, group=name, instance=who.instance)
        self.sent[token] = ("sync", name, (who.member, who.generation))

    def settle(self, name, _, count):
        """Some clients join, and sync once they know their generation."""
        members = [self.clients[name, number] for number in range(count)]
        for who in [*members, *members]:
            self.join(name, who, 0)
            self.read_answers()
        self.harness.pass_time(5_000)
        self.read_answers()
        for who in members:
            self.sync(name, who, PARTITIONS)

    def heartbeat(self, name, who, _):
        if not self.harness.holding:
            self.harness.heartbeat(who.member, who.generation, group=name, instance=who.instance)

    def leave(self, name, who, _):
        if not self.harness.holding:
            self.harness.leave((who.member, who.instance), group=name)
            who.forget()

    def commit(self, name, who, offset):
        self.attempts[name].append(offset)
        token = self.harness.commit({("t", 0): offset}, group=name, member=who.member, generation=who.generation)
        self.sent[token] = ("commit", name, len(self.attempts[name]) - 1)

    def admin_commit(self, name, _, offset):
        self.attempts[name].append(offset)
        token = self.harness.commit({("t", 0): offset}, group=name)
        self.sent[token] = ("commit", name, len(self.attempts[name]) - 1)

    def delete(self, name, _, __):
        self.attempts[name].append(None)
        token = self.harness.send(DeleteGroupsRequest(groups_names=[name]), 2)
        self.sent[token] = ("delete", name, len(self.attempts[name]) - 1)

    def restart(self, _, who, __):
        who.forget()

    # The world.

    def time(self, _, __, ms):
        self.harness.pass_time(ms)

    def hold(self, *_):
        self.harness.holding = True

    def release(self, *_):
        self.harness.release()

    def refuse(self, _, __, refuse):
        self.harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS if refuse else None

    def failover(self, *_):
        self.harness.resign()
        self.read_answers()
        assert not self.sent, "everybody was told"
        self.harness = self.harness.failover()
        self.check_acknowledged()

    # What must hold.

    def read_answers(self):
        for token in [token for token in self.sent if token in self.harness.answers]:
            kind, name, about = self.sent.pop(token)
            getattr(self, f"{kind}_answered")(name, about, self.harness.answers[token])

    def join_answered(self, name, who, answer: JoinGroupResponse):
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            who.member = answer.member_id
        elif answer.error_code == ErrorCode.NONE:
            who.member, who.generation = answer.member_id, answer.generation_id
            who.leads = answer.leader == who.member and not answer.skip_assignment
            who.members = [member.member_id for member in answer.members]
        elif answer.error_code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            who.forget()

    def sync_answered(self, name, about, answer):
        if answer.error_code != ErrorCode.NONE:
            return
        member, generation = about
        assert generation >= self.generations[name], "a generation that went by was handed out again"
        self.generations[name] = generation
        owners = self.assigned.setdefault((name, generation), {})
        for partition in filter(None, answer.assignment.decode().split(",")):
            assert owners.setdefault(partition, self.place_of(name, member)) == self.place_of(name, member)

    def place_of(self, name, member):
        """A static member that came back is the same owner."""
        return member.rsplit("-", 5)[0] if member.startswith("instance") else member

    def commit_answered(self, name, attempt, answer):
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.acknowledged[name] = attempt

    def delete_answered(self, name, attempt, answer):
        """A group that may be deleted may begin again at its first generation."""
        if answer.results[0].error_code == ErrorCode.NONE:
            self.acknowledged[name] = attempt
        self.generations[name] = 0
        self.assigned = {key: owners for key, owners in self.assigned.items() if key[0] != name}

    def check_acknowledged(self):
        """What is fetched is the last acknowledged attempt, or a later one whose outcome nobody knows."""
        for name, attempts in self.attempts.items():
            found = self.harness.positions(name).get(("t", 0))
            assert found in attempts[self.acknowledged[name] :], (found, attempts, self.acknowledged[name])


def lasting(harness):
    offsets = {
        name: {where: Committed(*committed) for where, committed in positions.items()}
        for name, positions in harness.machine.offsets.snapshot().items()
    }
    return harness.machine.saved, offsets, set(harness.machine.groups)


@given(st.lists(steps, max_size=60))
def test_a_live_run_equals_its_replay(plan):
    run = Run()
    for step in plan:
        run.step(*step)
    run.refuse(None, None, False)
    run.release()
    run.read_answers()
    live = lasting(run.harness)
    run.failover()
    assert lasting(run.harness) == live
