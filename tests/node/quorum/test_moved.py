"""Voters that come back at another address, or with another directory, and steps that fail."""

from typing import ClassVar

import pytest

from tests.node.quorum.member_world import MemberWorld
from tests.node.quorum.quorum_cluster import Process, QuorumCluster
from tidelog.effects import REFUSED, Reply, Stop
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint
from tidelog.node.quorum.office import LEASE_OVER, Office
from tidelog.ports import Check
from tidelog.quorum import records
from tidelog.quorum.records import SessionEnded, SessionOpened, TreeChanges, decode, encode
from tidelog.quorum.replica import Replica
from tidelog.quorum.states import Leader
from tidelog.quorum.tree import Tree
from tidelog.sim.faults import SECOND
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint
from tidelog.wire.messages.cluster.metadata_write import MetadataWriteRequest


def test_a_voter_that_comes_back_elsewhere_is_found_by_the_others():
    world = MemberWorld()
    world.begin()
    leader = world.leader()
    moved = next(machine for machine in world.machines[:3] if machine.quorum is not leader)
    world.kill(moved)
    world.endpoints[moved.id] = [VoterEndpoint(name="CONTROLLER", host="elsewhere", port=7)]
    world.start(moved)
    running = [machine.quorum.member for machine in world.machines[:3]]
    world.until(lambda: all(each.endpoint(moved.id).host == "elsewhere" for each in running), 10 * SECOND)
    assert all(each.endpoint(moved.id).port == 7 for each in running)


def test_a_refusal_where_a_broker_was_before_does_not_end_its_session(monkeypatch):
    """A new leader knew only the controller's old address of a broker that had moved, and took it for dead."""
    cluster = QuorumCluster().start()
    cluster.settle()
    old = cluster.controller()
    epochs = {number: node.broker.broker_epoch for number, node in cluster.nodes.items() if number != old}
    for node in cluster.nodes.values():
        member = node.quorum

        def endpoint(which, member=member, found=member.endpoint):
            is_stale = isinstance(member.machine.state, Leader) and which != old
            return Endpoint("CONTROLLER", "PLAINTEXT", "host-77", 1) if is_stale else found(which)

        monkeypatch.setattr(member, "endpoint", endpoint)
    cluster.kill(old)
    cluster.settle()
    cluster.run(1_000)
    assert {number: node.broker.broker_epoch for number, node in cluster.nodes.items()} == epochs
    gone = [fields["broker"] for _, _, kind, fields in cluster.history if kind == "quorum.broker_gone"]
    assert gone == [old]


class OnHosts(Process):
    """Brokers at `addresses`, by default host-N; where no machine answers, connections are pending."""

    addresses: ClassVar = {}
    down: ClassVar = set()
    pending: ClassVar = []

    def __init__(self, cluster, number, disk):
        super().__init__(cluster, number, disk)
        membership = self.node.broker.membership
        moved = f"host-{self.addresses.get(number, number)}"
        membership._endpoints = tuple(each._replace(host=moved) for each in membership._endpoints)

    def connect(self, connection, host, port):
        address = int(host.removeprefix("host-"))
        if address in self.down:
            self.pending.append((self, connection))
            return
        at = next((number for number, where in self.addresses.items() if where == address), address)
        super().connect(connection, f"host-{at}", port)


@pytest.fixture
def hosts(monkeypatch):
    for name, value in (("addresses", {}), ("down", set()), ("pending", [])):
        monkeypatch.setattr(OnHosts, name, value)
    monkeypatch.setattr(QuorumCluster, "process", OnHosts)
    return OnHosts


def lose_power(cluster, number):
    """Nobody is told."""
    cluster.processes.pop(number).alive = False


@pytest.mark.parametrize("address", [1, 11])
def test_a_controller_that_is_no_broker_reaches_a_broker_again_after_a_power_loss(hosts, address):
    """It waited 30 s for an answer of the process that was there before."""
    cluster = QuorumCluster(size=3, voters=1, only_controllers=(0,)).start()
    cluster.settle()
    lose_power(cluster, 1)
    hosts.addresses[1] = address
    hosts.down.update({1} - {address})
    cluster.start(1)
    assert cluster.settle() < 1_000


def test_a_refusal_of_a_probe_that_waited_for_the_process_before_ends_no_session(hosts):
    cluster = QuorumCluster(size=5, voters=3, only_controllers=(0, 1, 2)).start()
    cluster.settle()
    before = cluster.controller()
    lose_power(cluster, 3)
    hosts.down.add(3)
    cluster.kill(before)
    cluster.wait(lambda: cluster.controller() is not None and hosts.pending)
    hosts.addresses[3] = 13
    cluster.start(3)
    new = cluster.nodes[3].broker
    cluster.wait(lambda: new.broker_epoch >= 0)
    epoch = new.broker_epoch
    for process, connection in hosts.pending:
        process.give("connect_failed", connection, REFUSED)
    cluster.run(1_000)
    assert new.broker_epoch == epoch
    assert 3 not in [fields["broker"] for _, _, kind, fields in cluster.history if kind == "quorum.broker_gone"]


def test_a_controller_that_is_replaced_keeps_no_channels_of_its_office():
    cluster = QuorumCluster(size=5, voters=3, only_controllers=(0, 1, 2)).start()
    cluster.settle()
    process = cluster.processes[cluster.controller()]
    assert "(3, 'controller')" in repr(process.node.peers)
    process.node.quorum.resign(cluster.now)
    cluster.wait(lambda: not process.node.broker.controller.leading)
    assert "'controller'" not in repr(process.node.peers)


def test_a_leader_ends_the_former_session_of_its_own_number_but_not_its_own():
    tree = Tree(("/brokers", "/brokers/ids"))
    tree.apply(10, SessionOpened(1, b"former".ljust(16), (b"d" * 16,), 0, ()))
    tree.apply(11, SessionOpened(2, b"other".ljust(16), (b"e" * 16,), 0, ()))
    office = Office(1, b"present".ljust(16), 9_000, ())
    office.begin(5, tree, 0)
    assert list(office.watched(tree)) == [2]
    assert [decode(each) for each in office.over(9_000)] == [SessionEnded(each, LEASE_OVER) for each in (10, 11)]
    for session in (10, 11):
        tree.apply(20, SessionEnded(session))
        office.ended(session)
    own = SessionOpened(1, b"present".ljust(16), (b"f" * 16,), 10, ())
    tree.apply(30, own)
    office.opened(30, own, 9_000)
    assert office.next_deadline is None


def test_a_step_that_fails_halfway_ends_the_process(monkeypatch):
    world = MemberWorld()
    world.begin()
    process = world.leader()

    def fail(*_):
        raise AssertionError("cut below the high watermark")

    monkeypatch.setattr(Replica, "raise_high_watermark", fail)
    with pytest.raises(AssertionError):
        process.member.wake(world.now(process.machine))
    monkeypatch.undo()
    (stop,) = [effect for effect in process.out if isinstance(effect, Stop)]
    assert "cut below the high watermark" in stop.reason
    assert process.member.next_deadline is None


def written(process, world, values):
    """The answer to a request of node 5 to the leader."""
    request = MetadataWriteRequest(
        cluster_id=process.member.setup.cluster_id, node_id=5, leader_epoch=process.member.office, values=values
    )
    process.member.request(77, request, world.now(process.machine))
    (answer,) = [effect for effect in process.out if isinstance(effect, Reply) and effect.token == 77]
    return answer.response.error_code


def test_records_that_are_too_large_together_are_refused():
    world = MemberWorld()
    world.begin()
    process = world.leader()
    end = process.member.machine.replica.end
    code = written(process, world, [encode(TreeChanges(0, 0, ()))] * 1_000)
    assert code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (process.member.machine.replica.end, process.member.has_failed) == (end, False)


def test_a_list_that_is_too_long_is_refused_whoever_sends_it(monkeypatch):
    world = MemberWorld()
    world.begin()
    process = world.leader()
    end = process.member.machine.replica.end
    monkeypatch.setattr(records, "MOST_CHANGES", 10_000)
    value = encode(TreeChanges(0, 0, (Check("/", 0),) * 5_001))
    monkeypatch.undo()
    assert written(process, world, [value]) == ErrorCode.INVALID_REQUEST
    assert process.member.machine.replica.end == end
