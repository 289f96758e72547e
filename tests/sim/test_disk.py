"""The simulated disk: what a kill and a power loss leave behind, and how faults refuse."""

from random import Random

import pytest

from tidelog.errors import DiskFailed
from tidelog.log.checkpoints import format_partition_metadata
from tidelog.sim.disk import PowerCut, SimDisk
from tidelog.sim.faults import GO_ON, KILL, POWER, REFUSE, Fault


def disk(seed=1):
    return SimDisk(["/data"], Random(seed))


def test_a_kill_keeps_the_page_cache():
    d = disk()
    file = d.open("/data/a", create=True)
    file.write(0, b"hello")
    d.kill()
    assert d.read("/data/a") == b"hello"


def test_a_power_loss_keeps_what_was_synced_and_only_blocks_of_the_rest():
    outcomes = set()
    for seed in range(60):
        d = disk(seed)
        file = d.open("/data/a", create=True)
        file.write(0, b"s" * 1000)
        file.sync()
        d.sync_folder("/data")
        file.write(1000, b"u" * 8000)
        d.lose_power()
        content = d.read("/data/a")
        assert content[:1000] == b"s" * 1000
        assert set(content[1000:]) <= {0, ord("u")}
        outcomes.add(len(content))
    assert {1000, 9000} <= outcomes
    assert len(outcomes) > 2


def test_an_unsynced_folder_entry_may_go_and_a_synced_one_stays():
    survived = set()
    for seed in range(40):
        d = disk(seed)
        d.open("/data/a", create=True).sync()
        d.sync_folder("/data")
        d.open("/data/b", create=True).write(0, b"x")
        d.lose_power()
        assert d.exists("/data/a")
        survived.add(d.exists("/data/b"))
    assert survived == {True, False}


def test_a_durable_replace_is_atomic_at_every_operation():
    seen = set()
    for crash in range(12):
        for seed in range(6):
            d = disk(seed)
            d.replace("/data/c", b"old")
            d.operations_left = crash
            try:
                d.replace("/data/c", b"new!")
            except PowerCut:
                d.lose_power()
                assert d.read("/data/c") in (b"old", b"new!")
                seen.add(d.read("/data/c"))
            else:
                d.lose_power()
                assert d.read("/data/c") == b"new!"
    assert seen == {b"old", b"new!"}


def test_a_truncation_that_was_not_synced_may_be_undone_but_invents_nothing():
    for seed in range(20):
        d = disk(seed)
        file = d.open("/data/a", create=True)
        file.write(0, b"abcdef")
        file.sync()
        d.sync_folder("/data")
        file.truncate(2)
        d.lose_power()
        assert d.read("/data/a") in (b"ab", b"abcdef")


def test_a_full_disk_writes_what_fits_and_names_the_folder():
    d = disk()
    d.capacity = 10
    file = d.open("/data/a", create=True)
    with pytest.raises(DiskFailed) as failure:
        file.write(0, b"x" * 12)
    assert failure.value.folder == "/data"
    assert d.read("/data/a") == b"x" * 10
    assert d.usage("/data") == (10, 0)


def test_a_failed_sync_forgets_what_was_dirty_though_the_next_one_succeeds():
    d = disk()
    file = d.open("/data/a", create=True)
    d.sync_folder("/data")
    file.write(0, b"lost")
    d.faults.append(Fault("sync", "/a", times=1))
    with pytest.raises(DiskFailed):
        file.sync()
    file.sync()
    d.lose_power()
    assert d.read("/data/a") == b""


def test_folders_are_renamed_and_removed_with_all_they_hold():
    d = disk()
    d.make_folder("/data/t-0")
    d.open("/data/t-0/1.log", create=True).close()
    d.rename("/data/t-0", "/data/t-0-delete")
    assert d.list("/data/t-0-delete") == ["1.log"]
    assert d.list("/data") == ["t-0-delete"]
    d.remove("/data/t-0-delete")
    assert d.list("/data") == []
    with pytest.raises(FileNotFoundError):
        d.open("/data/t-0-delete/1.log")


def test_a_folder_takes_the_name_of_no_other_that_holds_something():
    d = disk()
    for name in ("a", "b", "empty"):
        d.make_folder(f"/data/{name}")
        d.open(f"/data/{name}/{name}.log", create=True).close()
    d.remove("/data/empty/empty.log")
    with pytest.raises(DiskFailed):
        d.rename("/data/a", "/data/b")
    d.rename("/data/a", "/data/empty")
    assert [d.list(f"/data/{name}") for name in ("b", "empty")] == [["b.log"], ["a.log"]]


def test_a_torn_write_stores_a_part_and_is_refused():
    sizes = set()
    for seed in range(20):
        d = disk(seed)
        file = d.open("/data/a", create=True)
        d.faults.append(Fault("write", torn=True, times=1))
        with pytest.raises(DiskFailed):
            file.write(0, b"x" * 1000)
        sizes.add(file.size())
        file.write(0, b"y" * 1000)
        assert d.read("/data/a") == b"y" * 1000
    assert len(sizes) > 10
    assert max(sizes) < 1000


def test_a_fault_asks_at_its_moment_whether_to_refuse_go_on_or_end_the_process():
    d = disk()
    file = d.open("/data/a", create=True)
    words = iter((GO_ON, REFUSE, KILL))
    d.faults.append(Fault("sync", verdict=lambda: next(words)))
    file.sync()
    with pytest.raises(DiskFailed):
        file.sync()
    with pytest.raises(PowerCut):
        file.sync()
    assert d.ends_by == KILL
    d.kill()
    assert d.ends_by == POWER


def test_a_process_that_is_killed_within_an_operation_keeps_its_page_cache():
    d = disk()
    file = d.open("/data/a", create=True)
    file.write(0, b"kept")
    d.operations_left, d.verdict = 0, lambda: KILL
    with pytest.raises(PowerCut):
        file.write(4, b"torn")
    d.kill()
    assert d.read("/data/a").startswith(b"kept")
    assert len(d.read("/data/a")) < 8


def test_a_mended_disk_refuses_nothing():
    d = disk()
    d.faults.append(Fault("*"))
    d.capacity = 0
    d.operations_left = 0
    d.mend()
    d.open("/data/a", create=True).write(0, b"x" * 100)
    assert len(d.read("/data/a")) == 100


def test_a_rotten_bit_turns_in_the_cache_and_on_the_platter():
    d = disk()
    file = d.open("/data/a", create=True)
    file.write(0, b"aaaa")
    file.sync()
    d.flip("/data/a", 2)
    assert d.read("/data/a") == b"aa`a"
    assert d.rotten == {"/data"}
    d.lose_power()
    assert d.read("/data/a") == b"aa`a"


def test_a_new_disk_has_none_of_the_old_ones_faults():
    disk = SimDisk(["/data"], Random(0))
    disk.faults.append(Fault("*", times=-1))
    disk.erase()
    disk.make_folder("/data/t-0")
    assert disk.list("/data") == ["t-0"]


def two_folders():
    d = SimDisk(["/data/one", "/data/two"], Random(1))
    for path in ("/data/one/t-0", "/data/two/t-1"):
        d.make_folder(path)
        file = d.open(f"{path}/0.log", create=True)
        file.write(0, path.encode())
        file.sync()
        identify(d, path)
    return d


def identify(disk, path):
    """The broker finds a replica there."""
    disk.replace(f"{path}/partition.metadata", format_partition_metadata(b"T" * 16), durable=False)


def test_a_log_folder_under_another_path_is_the_same_one():
    d = two_folders()
    one, two = (d.directory_id(root) for root in d.roots)
    d.remount({"/data/one": "/data/two", "/data/two": "/data/one"})
    assert d.read("/data/two/t-0/0.log") == b"/data/one/t-0"
    assert (d.directory_id("/data/two"), d.directory_id("/data/one")) == (one, two)
    d.remount({"/data/two": "/mnt"})
    assert d.roots == ["/mnt", "/data/one"]
    d.lose_power()
    assert d.read("/mnt/t-0/0.log") == b"/data/one/t-0"
    assert d.holds(one)
    d.erase("/mnt")
    assert not d.holds(one)
    assert d.holds(two)
    assert d.list("/mnt") == []


def test_what_was_made_anew_while_a_log_folder_was_away_takes_the_place_of_the_old():
    d = two_folders()
    one = d.directory_id("/data/one")
    d.away.add("/data/one")
    assert d.mounted == ["/data/two"]
    assert (d.holds(one), d.shows(one)) == (True, False)
    d.make_folder("/data/two/t-0")
    identify(d, "/data/two/t-0")
    assert d.held_in(*d.mounted) == {("t", 0), ("t", 1)}
    d.mount()
    assert (d.list("/data/one"), d.list("/data/two")) == ([], ["t-0", "t-1"])
    assert d.shows(one)


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_of_power_brings_back_no_replica_that_an_operator_removed(seed):
    d = SimDisk(["/data/one", "/data/two"], Random(seed))
    for folder in d.roots:
        d.make_folder(f"{folder}/t-0", durable=False)
        identify(d, f"{folder}/t-0")
    d.away.add("/data/one")
    d.mount()
    d.lose_power()
    assert d.list("/data/one") == []


@pytest.mark.parametrize("torn", [False, True])
def test_what_a_loss_of_power_left_takes_the_place_of_no_replica(torn):
    """Seed 1004913. `torn`: of its topic id only a part was kept."""
    d = two_folders()
    d.away.add("/data/one")
    d.make_folder("/data/two/t-0")
    if torn:
        d.replace("/data/two/t-0/partition.metadata", b"version: 0\n")
    d.mount()
    assert d.read("/data/one/t-0/0.log") == b"/data/one/t-0"
    assert d.held_in(*d.roots) == {("t", 0), ("t", 1)}


@pytest.mark.parametrize("seed", range(20))
def test_what_was_done_in_a_folder_that_was_renamed_does_not_come_back_in_the_next_of_its_name(seed):
    """Seed 710206: a replica moved to another log folder and back, and its first topic id, never synced, was found."""
    disk = SimDisk(["/data"], Random(seed))
    disk.make_folder("/data/a")
    disk.replace("/data/a/id", b"first", durable=False)
    disk.rename("/data/a", "/data/a-delete")
    disk.sync_folder("/data")
    disk.make_folder("/data/b")
    disk.replace("/data/b/id", b"second")
    disk.rename("/data/b", "/data/a")
    disk.sync_folder("/data")
    disk.lose_power()
    assert disk.read("/data/a/id") == b"second"


def test_a_bit_that_turned_is_known_until_it_is_written_over():
    d = disk()
    file = d.open("/data/a", create=True)
    file.write(0, b"abcd")
    file.sync()
    d.flip("/data/a", 2)
    inode = d.inode("/data/a")
    assert (bytes(inode.cached), bytes(inode.whole()), inode.rotten) == (b"abbd", b"abcd", [2])
    file.write(2, b"c")
    assert inode.rotten == []
    d.lose_power()
    assert (bytes(inode.cached)[2:3] == b"b") == (inode.rotten == [2])
    inode.truncate(1)
    inode.write(1, b"bbb")
    assert (inode.rotten, bytes(inode.whole())) == ([], b"abbb")
