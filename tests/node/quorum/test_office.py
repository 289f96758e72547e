"""The leader of the metadata quorum is the controller: taking office, losing it, and what survives."""

from bench.metadata_scale import measured
from tests.node.quorum.quorum_cluster import QuorumCluster, directory
from tidelog.controller import journal, tree
from tidelog.model import NO_EPOCH
from tidelog.ports import Create, Delete, Read, StoreResult, Write
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.disk import NO_ROOM
from tidelog.sim.faults import Fault


def test_three_brokers_elect_a_leader_who_is_the_controller():
    cluster = QuorumCluster().start()
    cluster.settle()
    leader = cluster.controller()
    member = cluster.nodes[leader].quorum
    assert member.office == member.machine.epoch == cluster.nodes[leader].broker.controller.epoch
    for number in range(3):
        nodes = cluster.tree(number).nodes
        assert tree.parse_controller(nodes[tree.CONTROLLER].data) == leader
        assert nodes[tree.CONTROLLER].session == 0
        assert tree.parse_controller_epoch(nodes[tree.CONTROLLER_EPOCH].data) == member.office


def test_a_change_of_a_follower_is_answered_there_and_seen_by_all():
    cluster = QuorumCluster().start()
    cluster.settle()
    follower = next(number for number in range(3) if number != cluster.controller())
    written = cluster.submit(follower, Create("/cluster/x", b"1"))
    read = cluster.submit(follower, Read("/cluster/x"))  # submitted later, so it sees the change
    cluster.wait(lambda: read)
    assert (written[0].outcome, read[0].values[0].data) == ("ok", b"1")
    refused = cluster.submit(follower, Write("/cluster/x", b"2", 7))
    cluster.wait(lambda: refused)
    assert refused[0].outcome == "conflict"
    cluster.run(1_000)
    assert {cluster.tree(number).nodes["/cluster/x"].data for number in range(3)} == {b"1"}


def test_a_list_as_long_as_the_controllers_is_one_record():
    cluster = QuorumCluster().start()
    cluster.settle()
    written = cluster.submit(0, *[Create(f"/cluster/x{number}") for number in range(journal.CHUNK + 1)])
    cluster.wait(lambda: written)
    assert written[0].outcome == "ok"
    assert cluster.submit(0) == [StoreResult("ok")]


def test_after_the_controller_is_killed_another_one_leads_at_once_and_the_broker_is_gone():
    cluster = QuorumCluster().start()
    cluster.settle()
    before = cluster.controller()
    epoch = cluster.nodes[before].quorum.office
    cluster.kill(before)
    took = cluster.settle()
    assert took <= 500, took
    after = cluster.controller()
    assert after != before
    assert cluster.nodes[after].quorum.office > epoch
    assert tree.broker_path(before) not in cluster.tree(after).nodes


def test_the_session_of_a_killed_follower_ends_at_once():
    cluster = QuorumCluster().start()
    cluster.settle()
    follower = next(number for number in range(3) if number != cluster.controller())
    cluster.kill(follower)
    assert cluster.settle() <= 200


def test_all_brokers_come_back_with_what_was_written():
    cluster = QuorumCluster().start()
    cluster.settle()
    written = cluster.submit(1, Create("/cluster/x", b"kept"))
    cluster.wait(lambda: written)
    for number in range(3):
        cluster.kill(number)
    cluster.start()
    cluster.settle()
    assert {cluster.tree(number).nodes["/cluster/x"].data for number in range(3)} == {b"kept"}


def test_a_restarted_broker_replaces_its_own_session_at_once():
    cluster = QuorumCluster().start()
    cluster.settle()
    follower = next(number for number in range(3) if number != cluster.controller())
    before = cluster.nodes[follower].broker.broker_epoch
    cluster.kill(follower)
    cluster.start(follower)
    cluster.wait(lambda: cluster.nodes[follower].broker.broker_epoch > before, within_ms=1_000)
    cluster.settle()


def test_removing_the_node_of_the_controller_makes_it_resign():
    cluster = QuorumCluster().start()
    cluster.settle()
    before = cluster.nodes[cluster.controller()].quorum.office
    removed = cluster.submit(0, Delete(tree.CONTROLLER))
    cluster.wait(lambda: removed)
    cluster.wait(lambda: any(node.quorum.office > before for node in cluster.nodes.values()))
    cluster.settle()


def test_without_a_majority_nothing_is_acknowledged_and_everything_goes_on_afterwards():
    cluster = QuorumCluster().start()
    cluster.settle()
    leader = cluster.controller()
    others = [number for number in range(3) if number != leader]
    for number in others:
        cluster.kill(number)
    written = cluster.submit(leader, Create("/cluster/x", b"1"))
    cluster.run(20_000)
    assert not written
    assert cluster.nodes[leader].store.is_silent
    assert not cluster.nodes[leader].broker.controller.leading
    cluster.start(*others)
    cluster.settle()
    cluster.wait(lambda: written)
    assert written[0].outcome == "ok"


def test_one_voter_is_a_quorum():
    cluster = QuorumCluster(size=1).start()
    assert cluster.settle() <= 200
    cluster.kill(0)
    cluster.start()
    cluster.settle()


def test_a_node_with_a_replaced_disk_does_not_keep_the_session_of_the_old_one_alive():
    """It fetches with the same number, and waited for the end of the session for ever."""
    cluster = QuorumCluster(
        4, setup={"voters": VoterSet(ReplicaKey(each, directory(each)) for each in range(3))}
    ).start()
    cluster.settle()
    cluster.kill(3)
    cluster.replace_disk(3)
    before = cluster.tree(0).session_of(3)
    cluster.start(3)  # at once: nobody finds out by a refused connection that the process is another one
    cluster.wait(lambda: cluster.tree(0).session_of(3) not in (None, before), within_ms=30_000)
    cluster.settle()


def test_a_node_of_another_cluster_ends_with_a_sentence_and_disturbs_nobody():
    cluster = QuorumCluster().start(0, 1)
    cluster.setup = {"cluster_id": "another"}
    cluster.start(2)
    stranger = cluster.processes[2]
    cluster.wait(lambda: all(cluster.nodes[number].broker.broker_epoch >= 0 for number in range(2)))
    cluster.run(5_000)
    assert stranger.stopped.startswith(
        "The log directory belongs to cluster another, but controllers 0, 1 belong to another cluster: correct "
    )
    told = [number for _, number, kind, _ in cluster.history if kind == "quorum.other_cluster"]
    assert sorted(told) == [0, 2], "the leader and the stranger ask each other; node 1 asks only the leader"
    assert all(cluster.processes[number].stopped is None for number in range(2)), "one of three proves nothing"


def test_without_room_for_the_metadata_log_a_node_ends_with_a_sentence_at_its_start():
    """The error came out of the node."""
    cluster = QuorumCluster().start()
    cluster.settle()
    cluster.kill(2)
    cluster.disks[2].faults.append(Fault("write", "__cluster_metadata-0", reason=NO_ROOM, times=-1))
    cluster.start(2)
    assert cluster.processes[2].stopped.startswith("The metadata log failed: ")


def test_a_node_whose_metadata_log_fails_has_not_ended_cleanly():
    cluster = QuorumCluster().start()
    cluster.settle()
    number = next(each for each in range(3) if each != cluster.controller())
    cluster.disks[number].faults.append(Fault("write", "__cluster_metadata-0", times=1))
    cluster.submit(cluster.controller(), Create("/cluster/x", b""))
    cluster.wait(lambda: cluster.processes[number].stopped)
    cluster.disks[number].faults.clear()
    cluster.start(number)
    assert cluster.processes[number].node.broker.membership.clean_epoch == NO_EPOCH
    cluster.settle()


def test_a_metadata_log_that_cannot_be_closed_does_not_keep_a_node_from_stopping():
    """The error came out of the node."""
    cluster = QuorumCluster().start()
    cluster.settle()
    number = next(each for each in range(3) if each != cluster.controller())
    cluster.disks[number].faults.append(Fault("write", "__cluster_metadata-0/00000000000000000000.index", times=-1))
    cluster.processes[number].give("stop")
    cluster.wait(lambda: cluster.processes[number].stopped is not None)
    assert cluster.processes[number].stopped == ""


def test_a_broker_whose_metadata_sync_hangs_loses_its_session():
    """It fetches but applies nothing, so it would never carry out what the controller requests."""
    cluster = QuorumCluster().start()
    cluster.settle()
    hanging = next(number for number in range(3) if number != cluster.controller())
    process, syncs = cluster.processes[hanging], []
    session = process.node.quorum.session
    process.sync = lambda *arguments: syncs.append(arguments)
    others = [cluster.tree(number).sessions for number in range(3) if number != hanging]
    cluster.submit(cluster.controller(), Create("/cluster/x", b""))
    cluster.wait(lambda: all(session not in sessions for sessions in others), within_ms=15_000)
    assert syncs
    assert process.node.quorum._is_silent  # it knows that it knows nothing new
    del process.sync
    for arguments in syncs:
        process.sync(*arguments)
    cluster.settle()
    assert process.node.quorum.session > session


def test_a_failover_and_a_full_start_of_brokers_that_do_not_vote():
    """They used to wait for their fetch timers, so that the next controller's pushes were refused for seconds, and to ask
    the dead leader again and again."""
    failover, start = measured(10, 30)
    assert failover.ms < 100
    assert start.messages < 22 * 10**2
