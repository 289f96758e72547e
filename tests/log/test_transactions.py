"""Transactions in a log against a naive twin that reads every batch: last stable offset and aborted transactions.

Goal: whatever is done to a log, a reader of committed records is told of exactly the aborted transactions that have
records in what it reads, in the order of their markers, and never reads beyond the first transaction that is not
decided. Method: random transactions of three producers with rolls, truncations, restarts and crashes between.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.log.support import NOW, WALL, batch, flush, open_log, options, read_batches, sim_disk
from tidelog.errors import ApiError, ErrorCode
from tidelog.log import names
from tidelog.log.reading import aborted
from tidelog.log.segment import Warm
from tidelog.log.transactions import Aborted, TransactionIndex
from tidelog.wire.records import TRANSACTIONAL, Marker, build_marker, header, read_marker, records

CONFIG = options(internal_segment_bytes=700, index_interval_bytes=100)
FAR = 2**62

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["send", "send", "send", "commit", "abort", "abort"]), st.integers(0, 2)),
        st.tuples(st.sampled_from(["plain", "roll", "flush", "kill", "restart", "power"]), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 100)),
    ),
    max_size=30,
)


def transactional(producer, epoch, sequence, count=1):
    return bytearray(
        batch(
            *[b"x" * 20] * count,
            attributes=TRANSACTIONAL,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def marker(producer, epoch, *, commit, coordinator_epoch=0):
    return bytearray(
        build_marker(Marker(commit, coordinator_epoch), timestamp=WALL, producer_id=producer, producer_epoch=epoch)
    )


def send(log, producer, epoch=0, sequence=None, count=1):
    if sequence is None:
        known = log.producers.get(producer)
        sequence = known.last_sequence + 1 if known is not None and known.epoch == epoch else 0
    return log.append_as_leader(transactional(producer, epoch, sequence, count), 0, NOW)


def end(log, producer, epoch=0, *, commit, version=0, coordinator_epoch=0):
    data = marker(producer, epoch, commit=commit, coordinator_epoch=coordinator_epoch)
    return log.append_as_leader(data, 0, NOW, from_client=False, transaction_version=version)


class Twin:
    """What a scan of all batches says."""

    def __init__(self, held):
        self.open = {}
        self.ended = []
        self.aborted = []
        for data in held:
            found = header(data)
            if found.is_control:
                self.end(found, read_marker(next(records(data))))
            elif found.is_transactional:
                self.open.setdefault(found.producer_id, found.base_offset)

    def end(self, found, ended):
        first = self.open.pop(found.producer_id, None)
        if first is None:
            return
        self.ended.append((first, found.base_offset))
        if not ended.committed:
            stable = min(self.open.values(), default=found.base_offset + 1)
            self.aborted.append(Aborted(found.producer_id, first, found.base_offset, stable))

    def last_stable_offset(self, high_watermark):
        undecided = [first for first, last in self.ended if last >= high_watermark]
        return min([high_watermark, *undecided, *self.open.values()])

    def aborted_in(self, start, end):
        return [one for one in self.aborted if one.last_offset >= start and one.first_offset < end]


class Run:
    def __init__(self, seed):
        self.disk = sim_disk(seed)
        self.warm = Warm(2)
        self.checkpoint = 0
        self.log = open_log(self.disk, CONFIG, warm=self.warm)
        self.is_whole = True
        self.high_watermark = 0

    def send(self, producer):
        send(self.log, producer)

    def commit(self, producer):
        end(self.log, producer, commit=True)

    def abort(self, producer):
        end(self.log, producer, commit=False)

    def plain(self, _):
        self.log.append_as_leader(bytearray(batch(b"p" * 90)), 0, NOW)

    def roll(self, _):
        self.log.roll(NOW)

    def flush(self, _):
        self.checkpoint = flush(self.log)

    def truncate(self, percent):
        self.is_whole = False
        self.log.truncate_to(self.log.log_end_offset * percent // 100)
        self.checkpoint = min(self.checkpoint, self.log.recovery_point)

    def kill(self, _):
        self.disk.kill()
        self.reopen(clean=False)

    def power(self, _):
        self.disk.lose_power()
        self.reopen(clean=False)

    def restart(self, _):
        self.log.close()
        self.checkpoint = self.log.recovery_point
        self.reopen(clean=True)

    def reopen(self, *, clean):
        self.is_whole = False
        self.log = open_log(self.disk, CONFIG, recovery_point=self.checkpoint, clean=clean, warm=self.warm)

    def check(self, salt):
        self.log.check_invariants()
        log, twin = self.log, Twin(read_batches(self.log))
        leo = log.log_end_offset
        assert {p.producer_id: p.transaction_start for p in log.producers.values() if p.transaction_start >= 0} == (
            twin.open
        )
        found = [entry for segment in log.segments if segment.has_aborted for entry in segment.transactions]
        assert found == twin.aborted
        start = salt % (leo + 1)
        piece = log.read(start, 150, leo, at_least_one=True)
        if piece is not None:
            data = piece.file.read(piece.position, piece.length)
            last = list(read_whole(data))[-1]
            told = log.aborted(start, piece, leo)
            assert told == [one for one in twin.aborted if one in told]
            assert set(twin.aborted_in(start, last.next_offset)) <= set(told)
            assert all(one.last_offset >= start for one in told)
        self.high_watermark = max(self.high_watermark, leo * (salt % 4) // 3) if self.is_whole else leo
        stable = twin.last_stable_offset(self.high_watermark)
        assert log.producers.last_stable_offset(self.high_watermark) == stable


def read_whole(data):
    position = 0
    while position + 61 <= len(data):
        found = header(data, position)
        if found.end > len(data) and position:
            return
        yield found
        position = found.end


@given(STEPS, st.integers(0, 1000))
@example([("send", 0), ("abort", 0), ("roll", 0), ("kill", 0), ("send", 0), ("abort", 0), ("power", 0)], 1)
@example([("send", 0), ("roll", 0), ("send", 1), ("abort", 0), ("flush", 0), ("truncate", 60), ("abort", 1)], 2)
def test_a_log_knows_its_transactions_as_a_scan_does(taken, seed):
    run = Run(seed)
    for number, (name, argument) in enumerate(taken):
        getattr(run, name)(argument)
        run.check(seed + number)


def test_a_torn_transaction_index_is_made_anew():
    disk = sim_disk()
    log = open_log(disk, CONFIG)
    send(log, 1)
    end(log, 1, commit=False)
    send(log, 2)
    log.roll(NOW)
    end(log, 2, commit=False)
    expected = log.aborted(0, log.read(0, 10_000, FAR), FAR)
    log.close()
    path = f"{log.folder}/{names.name(0, names.TRANSACTION_INDEX)}"
    disk.replace(path, disk.read(path)[:-3], durable=True)
    again = open_log(disk, CONFIG, recovery_point=log.recovery_point, clean=True)
    assert again.aborted(0, again.read(0, 10_000, FAR), FAR) == expected
    assert len(disk.read(path)) == 34


def test_files_go_with_their_segment_and_exist_only_where_something_was_aborted():
    disk = sim_disk()
    log = open_log(disk, options(internal_segment_bytes=700, retention_bytes=0))
    send(log, 1)
    end(log, 1, commit=True)
    log.roll(NOW)
    assert not disk.exists(f"{log.folder}/{names.name(0, names.TRANSACTION_INDEX)}")
    send(log, 1)
    end(log, 1, commit=False)
    log.roll(NOW)
    assert disk.exists(f"{log.folder}/{names.name(2, names.TRANSACTION_INDEX)}")
    assert f"{log.folder}/{names.name(2, names.TRANSACTION_INDEX)}.deleted" in log.delete_old_segments(NOW, FAR)


def test_committed_readers_wait_for_the_marker_to_be_committed():
    log = open_log(sim_disk(), CONFIG)
    send(log, 1, count=3)
    assert log.producers.last_stable_offset(3) == 0
    end(log, 1, commit=True)
    assert log.producers.last_stable_offset(3) == 0, "the marker may yet be lost"
    assert log.producers.last_stable_offset(4) == 4


@pytest.mark.parametrize(
    ("epoch", "version", "coordinator", "code"),
    [
        (0, 0, 0, None),
        (1, 2, 5, None),
        (0, 2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (-1, 0, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_who_may_end_an_open_transaction(epoch, version, coordinator, code):
    log = open_log(sim_disk(), CONFIG)
    send(log, 1)
    if code is None:
        end(log, 1, epoch, commit=True, version=version, coordinator_epoch=coordinator)
        assert not log.producers.has_open(1, 0)
        return
    with pytest.raises(ApiError) as caught:
        end(log, 1, epoch, commit=True, version=version, coordinator_epoch=coordinator)
    assert caught.value.code == code
    assert log.log_end_offset == 1


def test_a_repeated_marker_changes_nothing_and_an_old_coordinator_is_fenced():
    log = open_log(sim_disk(), CONFIG)
    send(log, 1)
    end(log, 1, 1, commit=False, version=2, coordinator_epoch=4)
    end(log, 1, 1, commit=False, version=2, coordinator_epoch=4)
    assert len(log.segments.active.transactions) == 1
    with pytest.raises(ApiError) as caught:
        end(log, 1, 2, commit=True, version=2, coordinator_epoch=3)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_the_next_transaction_begins_with_the_raised_epoch_at_sequence_0_and_the_old_epoch_is_fenced():
    log = open_log(sim_disk(), CONFIG)
    send(log, 1, 0, 0, 2)
    end(log, 1, 1, commit=True, version=2)
    with pytest.raises(ApiError) as caught:
        send(log, 1, 0, 2)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    send(log, 1, 1, 0)
    assert log.producers.has_open(1, 1)


def test_a_marker_makes_a_verification_void():
    producers = open_log(sim_disk(), CONFIG).producers
    guard = producers.guard(1)
    assert producers.holds(1, guard)
    assert not producers.holds(1, guard), "an answer counts once"
    log = open_log(sim_disk(), CONFIG)
    guard = log.producers.guard(1)
    end(log, 1, commit=False)
    assert not log.producers.holds(1, guard)


def test_an_index_of_other_bytes_is_not_sane():
    index = TransactionIndex()
    index.append(Aborted(1, 5, 9, 10))
    index.append(Aborted(2, 6, 12, 13))
    assert index.is_sane(5)
    assert TransactionIndex(index.content).is_sane(0)
    assert not index.is_sane(11)
    assert not TransactionIndex(index.content[:-1]).is_sane(0)
    assert not TransactionIndex(b"\1" * 34).is_sane(0)


def test_a_marker_below_the_logs_start_ends_its_transaction_after_a_restart_too():
    disk = sim_disk()
    log = open_log(disk)
    begun = batch(b"1", producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    log.append_as_leader(begun, 0, NOW)
    log.roll(NOW)
    flush(log)
    marker = build_marker(Marker(True, 1), timestamp=WALL, producer_id=1, producer_epoch=0)
    log.append_as_leader(marker, 0, NOW, from_client=False)
    for _ in range(5):
        log.append_as_leader(batch(b"2"), 0, NOW)
    log.advance_start(4)
    known = log.producers.get(1)
    disk.kill()
    again = open_log(disk, recovery_point=1, start=4)
    again.truncate_to(6)
    assert again.producers.get(1) == known
    assert again.producers.last_stable_offset(6) == 6


def aborted_in_an_older_segment(disk):
    """A log of two segments, a power loss or a kill after the roll; nothing was flushed since."""
    log = open_log(disk)
    send(log, 1)
    end(log, 1, commit=False)
    recovery_point = flush(log)
    log.roll(NOW)
    log.append_as_leader(bytearray(batch(b"p")), 0, NOW)
    return log, recovery_point


@pytest.mark.parametrize("seed", range(8))
def test_what_was_rolled_after_its_flush_has_its_aborted_transactions_after_a_power_loss(seed):
    disk = sim_disk(seed)
    log, recovery_point = aborted_in_an_older_segment(disk)
    assert recovery_point == log.segments.active.base_offset
    disk.lose_power()
    again = open_log(disk, recovery_point=recovery_point)
    assert aborted(again.segments, 0, 2) == [Aborted(1, 0, 1, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_recovery_loses_no_index_that_was_durable_if_the_power_goes_again(seed):
    disk = sim_disk(seed)
    log, _ = aborted_in_an_older_segment(disk)
    recovery_point = flush(log)
    for _ in range(3):
        disk.lose_power()
        log = open_log(disk, recovery_point=recovery_point)
        assert aborted(log.segments, 0, 2) == [Aborted(1, 0, 1, 2)]


def test_a_clean_stop_after_a_recovery_that_was_flushed_keeps_the_aborted_transactions():
    disk = sim_disk()
    log = open_log(disk)
    send(log, 1)
    end(log, 1, commit=False)
    disk.kill()
    log = open_log(disk)
    recovery_point = flush(log)
    log.close()
    again = open_log(disk, recovery_point=recovery_point, clean=True)
    assert aborted(again.segments, 0, 2) == [Aborted(1, 0, 1, 2)]


def test_an_index_that_is_made_anew_knows_of_transactions_that_began_before_its_segment():
    disk = sim_disk()
    log = open_log(disk)
    send(log, 1)
    log.roll(NOW)
    end(log, 1, commit=False)
    recovery_point = flush(log)
    log.roll(NOW)
    log.snapshots.remove([1])
    disk.kill()
    again = open_log(disk, recovery_point=recovery_point)
    assert aborted(again.segments, 0, 2) == [Aborted(1, 0, 1, 2)]
