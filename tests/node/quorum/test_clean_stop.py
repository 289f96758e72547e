"""A broker of a metadata quorum that stops on purpose: its session ends by a record, and the quorum has its next leader
at once."""

import pytest

from tests.node.quorum.quorum_cluster import QuorumCluster
from tidelog.controller import tree
from tidelog.node.quorum.office import STOPPED
from tidelog.node.stopping import LEAVE_WITHIN_MS
from tidelog.ports import Write
from tidelog.quorum.records import SessionEnded, decode
from tidelog.wire.records import records


def ends(cluster, number):
    """Why sessions ended, by the log of a node."""
    found = []
    for header, content in cluster.nodes[number].quorum.machine.replica.committed(0):
        if not header.is_control:
            found += [decode(each.value) for each in records(content)]
    return [each.reason for each in found if isinstance(each, SessionEnded)]


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "controller"])
def test_a_clean_stop_ends_the_session_by_a_record(leads):
    cluster = QuorumCluster().start()
    cluster.settle()
    controller = cluster.controller()
    stopping = controller if leads else (controller + 1) % 3
    other = (stopping + 1) % 3
    process = cluster.processes[stopping]
    seen = []

    def is_gone():
        if tree.broker_path(stopping) not in cluster.tree(other).nodes and process.alive:
            seen.append(process.alive)
        return process.stopped is not None

    process.give("stop")
    assert cluster.wait(is_gone) <= 200
    assert process.stopped == ""
    assert seen or leads, "the others know before its process ends"
    assert cluster.settle() <= 400
    assert (cluster.controller() == controller) is not leads
    assert ends(cluster, other) == [STOPPED]
    cluster.start(stopping)
    cluster.settle()


def test_the_last_broker_does_not_wait_for_a_majority_for_long():
    cluster = QuorumCluster().start()
    cluster.settle()
    last = cluster.controller()
    for number in range(3):
        if number != last:
            cluster.kill(number)
    process = cluster.processes[last]
    process.node.stopping._leave(cluster.now)
    process.give("wake")
    assert cluster.wait(lambda: process.stopped is not None) <= LEAVE_WITHIN_MS + 10


def test_what_a_leader_has_left_to_send_in_the_turn_that_closes_its_log_is_not_appended():
    cluster = QuorumCluster().start()
    cluster.settle()
    process = cluster.processes[cluster.controller()]
    process.node.store.submit([Write(tree.CONTROLLER_EPOCH, b"9")], lambda _: None)
    process.node.stopping._stop_next_turn(cluster.now)
    process.give("wake")
    assert process.stopped == ""


def test_all_that_stop_at_once_end():
    cluster = QuorumCluster().start()
    cluster.settle()
    processes = dict(cluster.processes)
    for process in processes.values():
        process.give("stop")
    cluster.wait(lambda: all(process.stopped == "" for process in processes.values()))
    cluster.start()
    cluster.settle()
