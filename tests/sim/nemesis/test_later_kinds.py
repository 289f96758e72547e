"""Kinds of faults that came later: log folders, busy processes, a silent store, clocks days ahead, a leader left alone,
rot in a coordinator's log, the end of a log that is lost when it was told, and a coordinator that was replaced."""

from random import Random

import pytest

from tests.sim.nemesis.test_kinds import NAME, Scene, acked
from tidelog.client.transactional import OLDER
from tidelog.node.node import Node
from tidelog.sim.clients.commits import GROUPS
from tidelog.sim.clients.keeper import Keeper
from tidelog.sim.clients.other_producers import Habits
from tidelog.sim.clients.transactor import Auditor, Fate, Ledger, Transactor
from tidelog.sim.faults import SECOND
from tidelog.sim.host import Busy
from tidelog.sim.mutants.catalogue import applied, find
from tidelog.sim.parts.compaction import Compaction
from tidelog.sim.world import Violation

FOLDERS = "/data/one,/data/two"
SLOW_AT_FIRST = 2
"""Dice by which the old coordinator does not hear of the transaction that it is asked to end."""


@pytest.fixture
def scene():
    return Scene(log_dirs=FOLDERS)


def struck(scene, kind, count, seeds=40):
    """Strike until it has happened."""
    for seed in range(seeds):
        scene.strike(kind, seed)
        if scene.cluster.world.run(12 * SECOND, lambda: scene.ends(count) > 0):
            return
    raise AssertionError(f"{kind} never comes to {count}")


def ids(host):
    return [host.disk.directory_id(root) for root in host.disk.roots]


def test_one_log_folder_is_empty_at_a_start_and_the_others_are_not(scene):
    before = {host.broker_id: ids(host) for host in scene.hosts}
    struck(scene, "folder_replaced", "folder replaced")
    (host,) = (host for host in scene.hosts if ids(host) != before[host.broker_id])
    assert sum(now != then for now, then in zip(ids(host), before[host.broker_id], strict=True)) == 1
    assert not scene.cluster.suite.ghosts.of(NAME).loss_allowed
    scene.settles()


def test_a_log_folder_is_away_and_comes_back_with_what_it_holds(scene):
    struck(scene, "folder_away", "folder away")
    (host,) = (host for host in scene.hosts if host.disk.away)
    before = ids(host)
    scene.passes_until(lambda: host.up and isinstance(host.node, Node))
    assert host.node.broker.config.folders == host.disk.mounted
    scene.passes_until(lambda: not host.disk.away)
    assert ids(host) == before
    scene.settles()
    assert len(host.node.broker.config.folders) == 2


def test_a_renamed_log_folder_keeps_its_id_and_all_it_holds(scene):
    before = {id_ for host in scene.hosts for id_ in ids(host)}
    names = [host.disk.roots for host in scene.hosts]
    struck(scene, "folder_renamed", "folder renamed")
    assert {id_ for host in scene.hosts for id_ in ids(host)} == before
    assert [host.disk.roots for host in scene.hosts] != names
    scene.settles()
    assert acked(scene) > 0


def test_nobody_misses_the_folder_of_the_only_one_in_sync(scene):
    for host in scene.hosts[1:]:
        scene.world.kill(host)
        scene.nemesis.kept_down[host.broker_id] = scene.world.micros + 60 * SECOND
    scene.cluster.run(15)
    assert scene.cluster.suite.ghosts.states[NAME].isr == (0,)
    for seed in range(6):
        scene.strike("folder_replaced", seed)
        scene.cluster.run(6)
    assert not scene.cluster.suite.ghosts.of(NAME).lossy


def test_a_busy_process_does_nothing_and_keeps_its_session(scene):
    host = scene.hosts[0]
    epoch = host.node.broker.membership.epoch
    host.trouble.busy = Busy(duration=10 * SECOND, skips=0)
    scene.passes_until(lambda: host.life.busy, 2)
    began = scene.world.micros
    scene.world.resume(host)  # as if all were healed: an input ends when it ends
    assert host.life.paused
    scene.passes_until(lambda: not host.life.paused)
    assert scene.world.micros - began == 10 * SECOND
    assert (host.node.broker.membership.epoch, scene.ends("session expiry")) == (epoch, 0)
    scene.settles()


def test_what_a_long_input_brings_has_the_time_of_its_beginning(scene):
    host, seen = scene.hosts[0], []
    receive = host.node.receive

    def watched(connection, frames, now):
        seen.append(now.mono - host.now().mono)
        return receive(connection, frames, now)

    host.node.receive = watched
    host.trouble.busy = Busy(duration=4 * SECOND, skips=0)
    scene.cluster.run(8)
    assert {late for late in seen if late} <= {-4_000}
    scene.settles()


def test_a_controller_that_hears_nothing_of_the_store_resigns_and_its_session_goes_on(scene):
    struck(scene, "store_silent", "store silent")
    assert scene.ends("session expiry") == 0
    scene.settles()


def test_records_go_for_their_age_when_a_clock_is_days_ahead():
    scene = Scene(log_retention_check_interval_ms="500")
    for seed in range(12):
        scene.strike("clock_days", seed)
        scene.cluster.run(3)
    assert scene.cluster.suite.ghosts.aged
    assert scene.cluster.suite.deleted_to(NAME) > 0
    scene.settles()


def test_a_leader_that_is_left_alone_compacts_and_is_killed():
    scene = Scene(
        log_cleaner_backoff_ms="500",
        log_cleaner_min_cleanable_ratio="0.01",
        log_retention_check_interval_ms="2000",
        min_insync_replicas="1",
    )
    compaction = Compaction(scene.cluster, Random(2))
    compaction.start()
    scene.cluster.run(5)
    scene.strike("left_alone", 1)
    scene.passes_until(lambda: scene.ends("kill") == 3)
    assert scene.ends("killed after compaction, left alone") == 1
    compaction.stop()
    scene.settles()


@pytest.fixture
def committing():
    """With a group's positions, so that a coordinator has a log."""
    scene = Scene()
    keeper = Keeper(scene.world, scene.cluster.commits, "keeper", [NAME])
    keeper.process.after(0, keeper.start)
    scene.passes_until(lambda: keeper.reads > 3)
    return scene


def test_a_coordinator_serves_once_its_rot_is_mended(committing):
    scene = committing
    struck(scene, "coordinator_rot", "log.repaired")
    assert scene.ends("rot for a coordinator")
    assert not scene.cluster.suite.ghosts.rotten(GROUPS)
    scene.settles()
    assert not scene.cluster.suite.ghosts.of(GROUPS).loss_allowed


def test_a_coordinator_that_loads_rot_is_found_out(committing):
    with applied(find("coordinator-loads-rot")), pytest.raises(Violation, match="I51: broker"):
        struck(committing, "coordinator_rot", "log.repaired")  # which never comes


def test_nobody_loses_power_while_another_holds_rot(committing):
    scene, ghosts = committing, committing.cluster.suite.ghosts
    host, other, _ = scene.hosts
    path = next(path for path in host.disk.names if GROUPS.topic in path and path.endswith(".log"))
    host.disk.flip(path, 70)
    ghosts.rot[host.broker_id, GROUPS] = host.disk.inode(path)
    atlas = scene.nemesis.atlas
    assert (atlas.may_lose(other), atlas.may_lose(other, {NAME})) == (False, True)
    host.disk.inode(path).turned.clear()
    assert atlas.may_lose(other)


def test_the_end_that_a_broker_reports_is_lost_before_it_is_heard():
    scene = Scene()
    struck(scene, "end_told", "power loss, end told")
    scene.settles()
    assert acked(scene) > 0


@pytest.fixture
def transacting():
    """With an application whose producer speaks as before transaction version 2, and an auditor."""
    scene = Scene()
    ledger = Ledger(reused=scene.cluster.suite.ghosts.reused)
    transactor = Transactor(scene.world, ledger, "old", "id", [NAME], habits=Habits(OLDER))
    auditor = Auditor(scene.world, [NAME], ledger)
    for each in (transactor, auditor):
        each.process.after(0, each.start)
    return scene, transactor, auditor


def missing(transacting):
    """The values of transactions that were told to be committed, and are not, when the old coordinator was asked for
    the end of the next transaction."""
    scene, transactor, auditor = transacting
    scene.strike("stale_coordinator", SLOW_AT_FIRST)
    scene.passes_until(lambda: scene.ends("end asked of a replaced coordinator"), 30)
    scene.cluster.run(20)
    transactor.stopped = True
    scene.passes_until(lambda: transactor.idle, 60)
    scene.settles()
    end = scene.cluster.suite.ghosts.of(NAME).true_high_watermark
    scene.passes_until(lambda: auditor.has_read(NAME, end), 60)
    assert auditor.found[NAME]
    committed = [written for written in auditor.ledger.transactions if written.fate is Fate.COMMITTED]
    return {value for written in committed for _, value in written.values} - set(auditor.found[NAME])


def test_a_replaced_coordinator_reports_to_no_old_client_that_its_next_transaction_is_committed(transacting):
    assert not missing(transacting)


def test_a_replaced_coordinator_that_answers_by_what_it_remembers_is_found_out(transacting):
    with applied(find("replaced-coordinator-answers")):
        assert missing(transacting)
