"""Chunks and their digests against a naive twin: whatever the width of chunks and the pieces that a log is cut into, two
replicas differ where a batch-by-batch comparison says so."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.audit.logs import batch
from tidelog.audit.core.comparing import agree_again, differences, suspicious
from tidelog.audit.core.merging import ReplicaInfo, ReplicaLog, merge
from tidelog.audit.core.scanning import ROW_BYTES, Scanner

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=12)


def log_of(sizes, changed, epochs):
    """Batches of so many records; `changed` are the numbers of those that hold something else."""
    found, base, epoch = [], 0, 0
    for number, size in enumerate(sizes):
        epoch += number in epochs
        found.append(batch(base, epoch, *[b"w" if number in changed else b"v"] * size))
        base += size
    return found


def scanned(content, width, cuts, rows=None):
    """The scans of the pieces that the log is cut into."""
    bounds = sorted({0, *(cut for cut in cuts if cut < len(content)), len(content)})
    scans = []
    for low, high in pairwise(bounds):
        scanner = Scanner(width, rows=rows)
        data = b"".join(content[low:high])
        assert scanner.feed(data) == len(data)
        scans.append(scanner.scan)
    return scans


def compared(logs, width, cuts):
    """What the audit does with chunks."""
    found = [
        merge(ReplicaInfo(broker), scanned(content, width, own), gaps_allowed=False)
        for broker, (content, own) in enumerate(zip(logs, cuts, strict=True))
    ]
    numbers = suspicious(found, width)
    rows = {}
    for broker, content in enumerate(logs):
        kept = {number: bytearray() for number in numbers}
        scanned(content, width, (), kept)
        rows[broker] = {number: bytes(raw) for number, raw in kept.items()}
    return found, differences(found, rows, numbers)


def naive(one, other):
    """The base offsets, below the ends of both, at which they do not hold the same batch."""
    ours, theirs = ({int.from_bytes(raw[:8]): raw[:ROW_BYTES] for raw in log} for log in (one, other))
    ends = [int.from_bytes(log[-1][:8]) + int.from_bytes(log[-1][23:27]) + 1 for log in (one, other)]
    return [base for base in sorted({*ours, *theirs}) if base < min(ends) and ours.get(base) != theirs.get(base)]


@given(
    sizes=st.lists(SIZES, min_size=2, max_size=2),
    same=st.booleans(),
    changed=st.sets(st.integers(0, 11), max_size=3),
    epochs=st.lists(st.sets(st.integers(0, 11), max_size=3), min_size=2, max_size=2),
    width=st.integers(1, 20),
    cuts=st.lists(st.sets(st.integers(1, 11), max_size=3), min_size=2, max_size=2),
)
def test_chunks_find_what_comparing_every_batch_finds(sizes, same, changed, epochs, width, cuts):
    first = log_of(sizes[0], (), epochs[0])
    second = log_of(sizes[0] if same else sizes[1], changed, epochs[0] if same else epochs[1])
    (one, other), found = compared([first, second], width, cuts)
    expected = naive(first, second)
    assert [each.start for each in found][:1] == expected[:1]
    covered = {offset for each in found for offset in range(each.start, each.end)}
    assert set(expected) <= covered
    assert covered <= set(range(min(one.end, other.end)))


@given(sizes=SIZES, width=st.integers(1, 20), cuts=st.sets(st.integers(1, 11)))
def test_a_log_cut_into_pieces_adds_up_to_the_same(sizes, width, cuts):
    content = log_of(sizes, (), {3, 7})
    whole, cut = (merge(ReplicaInfo(0), scanned(content, width, each), gaps_allowed=False) for each in ((), cuts))
    assert (whole.chunks, whole.epochs, whole.start, whole.end) == (cut.chunks, cut.epochs, cut.start, cut.end)
    assert (cut.batches, cut.bytes, cut.faults) == (len(content), sum(map(len, content)), [])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=4), min_size=2, max_size=2),
    st.integers(0, 12),
)
def test_where_epochs_agree_again(steps, start):
    logs = []
    for broker, own in enumerate(steps):
        log, epoch, offset = ReplicaLog(ReplicaInfo(broker), start=0), 0, 0
        for rise, length in own:
            epoch += rise + 1
            log.epochs.append((epoch, offset))
            offset += length
        log.end = offset
        logs.append(log)
    end = min(log.end for log in logs)
    expected = next((o for o in range(start, end) if logs[0].epoch_at(o) == logs[1].epoch_at(o)), -1)
    assert agree_again(*logs, start) == expected
