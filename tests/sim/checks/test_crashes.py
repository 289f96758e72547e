"""I30 can be broken: what is there after a crash."""

from random import Random
from types import SimpleNamespace

import pytest

from tests.sim.checks.support import NAME, batch, ghosts, replica
from tidelog.log.checkpoints import format_partition_metadata
from tidelog.sim.checks.crashes import CHECKPOINTS, Crashes, check_checkpoints, check_durable
from tidelog.sim.disk import SimDisk

OLD = ((5, 0), (5, 1), (5, 1))


def machine():
    return SimpleNamespace(broker_id=1, disk=SimDisk(["/data"], Random(1)))


def crashed(how, *, synced_to=5, cut=None, host=None):
    crashes, old = Crashes(), replica(1, OLD, recovery_point=synced_to)
    if cut is not None:
        old.cut(cut)
    crashes.end(ghosts(), host or machine(), how, old, failed=False)
    return crashes


def recover(crashes, *batches, host=None):
    crashes.check_recovered(host or machine(), replica(1, batches))


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_what_was_synced_and_a_prefix_of_the_rest(kept):
    recover(crashed("power loss"), *OLD[:kept])


@pytest.mark.parametrize("found", [OLD[:0], (OLD[0], (5, 1, 77)), (*OLD, (5, 1))])
def test_less_than_was_synced_or_something_else(found):
    with pytest.raises(AssertionError, match=r"^I30:"):
        recover(crashed("power loss"), *found)


def test_a_kill_costs_nothing():
    recover(crashed("kill"), *OLD)
    with pytest.raises(AssertionError, match=r"^I30:"):
        recover(crashed("kill"), *OLD[:2])


@pytest.mark.parametrize(("epoch", "isr", "may_be_cut"), [(1, None, True), (1, (1,), False), (-1, None, False)])
def test_only_a_follower_may_have_been_truncating_when_it_was_killed(epoch, isr, may_be_cut):
    host, crashes = machine(), Crashes()
    host.disk.operations_left = -1
    crashes.end(ghosts(), host, "kill", replica(1, OLD, epoch=epoch, isr=isr), failed=False)
    assert crashes.remains[1, NAME].required_end == (0 if may_be_cut else 15)


def test_a_compacted_log_must_reach_as_far_as_it_was_sure():
    """Of its batches nothing is known."""
    crashes, found = crashed("kill"), replica(1)
    crashes.remains[1, NAME].replica.log.skip_to(15)
    found.log.skip_to(10)
    with pytest.raises(AssertionError, match=r"^I30: .* ends below 15"):
        crashes.check_recovered(machine(), found)


def test_what_a_cut_took_may_come_back_but_nothing_behind_it():
    recover(crashed("power loss", cut=10), *OLD)
    crashes = Crashes()
    old = replica(1, OLD, recovery_point=5)
    old.cut(5)
    old.log.append(5, 8, 2, 42)
    crashes.end(ghosts(), machine(), "power loss", old, failed=False)
    with pytest.raises(AssertionError, match=r"^I30:"):
        recover(crashes, OLD[0], (3, 2, 42), (5, 1, 1010))


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_syncs_no_cut_so_a_later_life_that_loses_its_power_may_bring_it_back(torn):
    """Seeds 210984 and 211494. `torn`: it was killed while it cut."""
    host, crashes = machine(), Crashes()
    old = replica(1, OLD, epoch=2, recovery_point=5)
    if torn:
        host.disk.operations_left = -1
    else:
        old.cut(10)
    crashes.end(ghosts(), host, "kill", old, failed=False)
    host.disk.operations_left = None
    later = replica(1, OLD[:2], recovery_point=5)
    crashes.check_recovered(host, later)
    later.log.append(10, 13, 2, 42)
    crashes.end(ghosts(), host, "power loss", later, failed=False)
    end = crashes.remains[1, NAME]
    recover(crashes, *OLD, host=host)
    crashes.remains[1, NAME] = end
    with pytest.raises(AssertionError, match=r"^I30:"):
        recover(crashes, *OLD[:2], (3, 2, 42), (5, 1), host=host)


def test_what_a_loss_of_power_left_is_on_the_platter():
    host, crashes = machine(), crashed("power loss", cut=10)
    later = replica(1, OLD[:2], recovery_point=5)
    crashes.check_recovered(host, later)
    crashes.end(ghosts(), host, "power loss", later, failed=False)
    with pytest.raises(AssertionError, match=r"^I30:"):
        recover(crashes, *OLD, host=host)


def test_a_log_that_is_gone():
    with pytest.raises(AssertionError, match=r"^I30:"):
        crashed("power loss").check_gone(ghosts(), machine())
    crashed("power loss", synced_to=0).check_gone(ghosts(), machine())
    deleted = ghosts()
    deleted.deleting.add("t")
    crashed("power loss").check_gone(deleted, machine())


def test_a_replaced_disk_has_nothing():
    host = machine()
    crashes = crashed("power loss", host=host)
    host.disk.erase()
    crashes.check_gone(ghosts(), host)
    assert (1, NAME) not in crashes.remains


@pytest.mark.parametrize("made", [False, True])
def test_what_was_made_anew_within_a_step_while_its_log_folder_was_away_is_no_prefix_of_the_old(made):
    """Seed 1004741: the life that made it died within that step, so nobody saw it."""
    host = SimpleNamespace(broker_id=1, disk=SimDisk(["/data", "/other"], Random(1)))
    crashes = crashed("kill", host=host)
    host.disk.away.add("/data")
    host.disk.make_folder(f"/other/{NAME}")
    if made:
        host.disk.replace(f"/other/{NAME}/partition.metadata", format_partition_metadata(b"T" * 16))
    crashes.end_life(host, "kill")
    if made:
        recover(crashes, host=host)
        return
    crashes.check_gone(ghosts(), host)  # it may be there next time
    host.disk.mount()
    with pytest.raises(AssertionError, match=r"^I30:"):
        crashes.check_gone(ghosts(), host)


def test_a_life_that_saw_nothing_of_an_older_one_loses_what_that_had_not_synced():
    host = machine()
    crashes = crashed("kill", host=host)
    crashes.end_life(host, "power loss")
    recover(crashes, OLD[0], host=host)


@pytest.mark.parametrize("content", [b"", b"0", b"0\n2\nt 0 5\n", b"0\n1\nt 0 5"])
def test_a_checkpoint_that_is_torn(content):
    disk = machine().disk
    disk.replace(f"/data/{CHECKPOINTS[0]}", b"0\n1\nt 0 5\n")
    check_checkpoints(disk, "/data")
    disk.replace(f"/data/{CHECKPOINTS[1]}", content)
    with pytest.raises(AssertionError, match=r"^I30:"):
        check_checkpoints(disk, "/data")


def test_a_recovery_point_past_what_is_synced():
    disk = machine().disk
    file = disk.open("/data/x.log", create=True)
    file.write(0, batch([b"a"], base=0))
    file.sync()
    file.write(file.size(), batch([b"b"], base=1))
    segment = SimpleNamespace(path=lambda _: "/data/x.log", size=file.size())
    moved = replica(1, OLD, recovery_point=1)
    moved.partition.log.segments = [segment]
    check_durable(moved, replica(1, OLD).state, disk)
    moved.state = moved.state._replace(recovery_point=2)
    with pytest.raises(AssertionError, match=r"^I30:"):
        check_durable(moved, replica(1, OLD).state, disk)
    disk.rotten.add(moved.partition.log.folder)
    check_durable(moved, replica(1, OLD).state, disk)  # a repair
    disk.rotten.clear()
    file.sync()
    check_durable(moved, replica(1, OLD).state, disk)


EPOCHS = ((0, 0), (1, 5), (2, 8), (3, 15))


@pytest.mark.parametrize(("how", "kept"), [("kill", EPOCHS), ("kill", EPOCHS[:3]), ("power loss", EPOCHS[:2])])
def test_epochs_that_are_known_again(how, kept):
    recover_epochs(how, kept)


@pytest.mark.parametrize("kept", [EPOCHS[:2], (EPOCHS[0], *EPOCHS[2:]), (*EPOCHS[:2], (2, 9))])
def test_epochs_that_a_kill_costs(kept):
    """That of 8 has no batch any more."""
    with pytest.raises(AssertionError, match=r"^I30: .* when it was killed$"):
        recover_epochs("kill", kept)


def recover_epochs(how, kept):
    crashes = Crashes()
    crashes.end(ghosts(), machine(), how, replica(1, OLD, epochs=EPOCHS, recovery_point=5), failed=False)
    crashes.check_recovered(machine(), replica(1, OLD, epochs=kept))
