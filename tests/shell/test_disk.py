"""Files and folders of the operating system behind `ports.Disk`."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.output import read_line
from tidelog.errors import DiskFailed, DiskFull
from tidelog.shell.disk import FolderLocked, OsDisk, lock_folder
from tidelog.shell.thread_pool import ThreadPool


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


@pytest.fixture
def disk(folder):
    return OsDisk([folder])


@pytest.fixture
def synced(monkeypatch):
    """Every path that was synced from now on, in order."""
    paths = []

    def recorder(original):
        def sync(fd):
            paths.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
            original(fd)

        return sync

    monkeypatch.setattr(os, "fsync", recorder(os.fsync))
    monkeypatch.setattr(os, "fdatasync", recorder(os.fdatasync))
    return paths


def test_what_was_written_is_read_back_and_a_read_ends_at_the_end_of_the_file(disk, folder):
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, b"hello ")
    file.write(6, memoryview(bytearray(b"world")))
    file.write(20, bytearray(b"!"))
    assert file.size() == 21
    assert file.read(0, 11) == b"hello world"
    assert file.read(15, 100) == b"\0\0\0\0\0!"
    assert file.read(21, 10) == b""
    file.truncate(5)
    assert disk.read(f"{folder}/a") == b"hello"


def test_short_writes_are_continued(disk, folder, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, data[:3], position))
    file = disk.open(f"{folder}/a", create=True)
    file.write(2, memoryview(b"0123456789"))
    assert disk.read(f"{folder}/a") == b"\0\x000123456789"


def test_open_knows_missing_and_existing_paths(disk, folder):
    with pytest.raises(FileNotFoundError):
        disk.open(f"{folder}/a")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{folder}/b/a", create=True)
    disk.open(f"{folder}/a", create=True).write(0, b"kept")
    with pytest.raises(FileExistsError):
        disk.open(f"{folder}/a", create=True)
    assert disk.open(f"{folder}/a").read(0, 4) == b"kept"
    with pytest.raises(FileNotFoundError):
        disk.read(f"{folder}/c")
    with pytest.raises(FileNotFoundError):
        disk.list(f"{folder}/c")


def test_a_closed_and_removed_file_stays_readable_until_nobody_holds_it(disk, folder):
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, b"data")
    number = file.fd
    file.close()
    disk.remove(f"{folder}/a")
    assert file.read(0, 4) == b"data"
    with pytest.raises(AssertionError):
        file.write(0, b"x")
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_the_first_sync_of_a_new_file_syncs_its_folder_and_later_ones_the_data_only(disk, folder, synced):
    file = disk.open(f"{folder}/a", create=True)
    file.sync()
    assert synced == [f"{folder}/a", folder]
    file.sync()
    assert synced == [f"{folder}/a", folder, f"{folder}/a"]
    disk.rename(f"{folder}/a", f"{folder}/b")
    file.sync()
    assert synced[3:] == [f"{folder}/b", folder]


def test_replace_is_whole_or_not_and_durable_unless_told_otherwise(disk, folder, synced):
    disk.replace(f"{folder}/a", b"one")
    assert synced == [f"{folder}/a.loop.tmp", folder]
    disk.replace(f"{folder}/a", b"two", durable=False)
    assert len(synced) == 2
    assert disk.read(f"{folder}/a") == b"two"
    assert disk.list(folder) == ["a"]


def test_folders_are_made_with_their_parents_and_removed_with_what_they_hold(disk, folder, synced):
    disk.make_folder(f"{folder}/x/y/z")
    assert synced == [folder, f"{folder}/x", f"{folder}/x/y"]
    disk.make_folder(f"{folder}/x/y/z")
    disk.open(f"{folder}/x/y/z/file", create=True)
    disk.open(f"{folder}/x/b", create=True)
    assert disk.list(f"{folder}/x") == ["b", "y"]
    disk.remove(f"{folder}/x")
    disk.remove(f"{folder}/x")
    assert not disk.exists(f"{folder}/x")


def test_what_the_system_refuses_names_the_log_folder(folder, monkeypatch):
    Path(f"{folder}/one").mkdir()
    disk = OsDisk([f"{folder}/one/", f"{folder}/two"])
    file = disk.open(f"{folder}/one/a", create=True)

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("pwrite", "fsync", "ftruncate", "pread"):
        monkeypatch.setattr(os, name, refuse)
    for operation in (lambda: file.write(0, b"x"), file.sync, lambda: file.truncate(0), lambda: file.read(0, 1)):
        with pytest.raises(DiskFailed) as caught:
            operation()
        assert (caught.value.folder, caught.value.reason) == (
            f"{folder}/one",
            f"{folder}/one/a: No space left on device",
        )


def test_usage_counts_the_file_system(disk, folder):
    total, usable = disk.usage(folder)
    assert 0 < usable <= total


def test_a_locked_folder_is_refused_to_others_until_its_process_ends(folder):
    code = "import sys; from tidelog.shell.disk import *; lock_folder(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, folder], stdin=-1, stdout=-1) as owner:
        try:
            read_line(owner.stdout)
            with pytest.raises(FolderLocked):
                lock_folder(folder)
        finally:
            owner.kill()
    release = lock_folder(folder)
    with pytest.raises(FolderLocked):
        lock_folder(folder)
    release()
    lock_folder(folder)()


def test_a_log_folder_that_is_gone_has_failed_and_what_is_missing_in_one_that_stands_is_missing(tmp_path):
    folder = str(tmp_path / "logs")
    disk = OsDisk([folder])
    assert not disk.exists(folder)
    disk.make_folder(folder)
    with pytest.raises(FileNotFoundError):
        disk.replace(f"{folder}/t-0/a", b"")
    Path(folder).rmdir()
    for touch in (disk.read, disk.list, disk.open, disk.make_folder, lambda path: disk.replace(path, b"")):
        with pytest.raises(DiskFailed) as failed:
            touch(f"{folder}/a")
        assert failed.value.folder == folder


def test_what_finds_no_room_is_told_apart_and_a_replaced_file_stays_whole(disk, folder, monkeypatch):
    disk.replace(f"{folder}/a", b"before")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFull):
        disk.replace(f"{folder}/a", b"after")
    assert disk.list(folder) == ["a"]
    assert disk.read(f"{folder}/a") == b"before"
    with pytest.raises(DiskFull):
        disk.open(f"{folder}/a").write(0, b"x")
    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(DiskFailed) as failed:
        disk.open(f"{folder}/a").sync()
    assert not isinstance(failed.value, DiskFull), "what an fsync could not write is lost"


def test_a_file_may_be_replaced_on_the_loop_and_on_a_thread_at_the_same_time(disk, folder, monkeypatch):
    rename, thread_pool = os.rename, ThreadPool()
    done = threading.Event()

    def replace_on_a_thread():
        disk.replace(f"{folder}/a", b"by the thread")
        done.set()

    def slow(source, target):
        monkeypatch.setattr(os, "rename", rename)
        thread_pool.submit("sync", folder, replace_on_a_thread)
        assert done.wait(60)
        rename(source, target)

    monkeypatch.setattr(os, "rename", slow)
    disk.replace(f"{folder}/a", b"on the loop")
    thread_pool.stop()
    assert disk.read(f"{folder}/a") == b"on the loop"
    assert disk.list(folder) == ["a"]
