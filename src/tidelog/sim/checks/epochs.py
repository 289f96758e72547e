"""I18 (S): the epoch cache's epochs and offsets strictly ascend; every epoch in the log has its entry at its first
retained offset; other entries exist only for epochs without records.

I19 (S): rule 6 equals brute force over the cache.
"""

from collections.abc import Sequence
from itertools import pairwise

from tidelog.sim.checks.replica import Chain, Replica, State

NOTHING = (-1, -1)
Entries = Sequence[tuple[int, int]]


def check(replica: Replica, before: State | None, *, cut: bool) -> None:
    """Check the tail at every change of the log's end, and all of it after a truncation or a change of role."""
    state = replica.state
    assert state is not None
    if (
        before is not None
        and not cut
        and (before.epoch, before.start, before.end)
        == (
            state.epoch,
            state.start,
            state.end,
        )
    ):
        return
    entries: Entries = list(replica.partition.log.epochs)
    check_order(replica, entries)
    is_new = before is None or cut or before.epoch != state.epoch
    if is_new or before is None or before.start != state.start:
        check_entries(replica, entries)
    else:
        check_tail(replica, entries, before.end)
    for requested in range(-1, state.epoch + 2) if is_new else (state.epoch,):
        check_answer(replica, entries, requested)


def check_order(replica: Replica, entries: Entries) -> None:
    for lower, upper in pairwise(entries):
        assert lower[0] < upper[0] and lower[1] < upper[1], f"I18: {replica!r} has entries {entries}"  # noqa: PT018


def check_entries(replica: Replica, entries: Entries) -> None:
    state, known = replica.state, dict(entries)
    assert state is not None
    start_of_log = max(state.start, replica.first_offset, replica.deleted_to)
    first = first_bases(replica.log, start_of_log)
    for epoch, base in first.items():
        begins = known.get(epoch, -1)
        right = begins == base or (base == start_of_log and 0 <= begins < base)
        assert right, f"I18: {replica!r} has epoch {epoch} from {base}, but its cache has {entries}"
    for epoch, start in entries:
        if epoch in first or start <= start_of_log:
            continue
        assert start == state.end and epoch in replica.led and not lost(replica, epoch), (  # noqa: PT018
            f"I18: {replica!r} has no record of epoch {epoch}, which its cache has from {start}: {entries}"
        )


def lost(replica: Replica, epoch: int) -> bool:
    """Whether records of this epoch were truncated in this life, and the epoch is not the current one."""
    return epoch != replica.partition.epoch and any(batch.epoch == epoch for _, gone in replica.cuts for batch in gone)


def check_tail(replica: Replica, entries: Entries, since: int) -> None:
    known, below = dict(entries), replica.log.below(since)
    previous = below.epoch if below is not None else -1
    for batch in replica.log.since(since):
        if batch.epoch != previous and batch.epoch >= 0:
            begins = known.get(batch.epoch, -1)
            right = begins == batch.base or (batch.base == replica.first_offset and 0 <= begins < batch.base)
            assert right, f"I18: {replica!r} has {batch}, but its cache has {entries}"
        previous = batch.epoch


def first_bases(chain: Chain, start: int) -> dict[int, int]:
    """Return the offset of each epoch's first retained record."""
    first: dict[int, int] = {}
    for batch in chain.batches:
        if batch.epoch >= 0 and batch.end > start:
            first.setdefault(batch.epoch, max(batch.base, start))
    return first


def brute_force(entries: Entries, end: int, requested: int) -> tuple[int, int]:
    """Rule 6, computed naively."""
    if requested < 0 or not entries or requested > entries[-1][0]:
        return NOTHING
    if requested == entries[-1][0]:
        return requested, end
    older = [epoch for epoch, _ in entries if epoch <= requested]
    follows = next(start for epoch, start in entries if epoch > requested)
    return (older[-1] if older else requested), follows


def check_answer(replica: Replica, entries: Entries, requested: int) -> None:
    assert replica.state is not None
    right = brute_force(entries, replica.state.end, requested)
    answered = replica.partition.epoch_end(requested)
    assert tuple(answered) == right, (
        f"I19: {replica!r} answers {answered} for the end of epoch {requested}; by {entries} it is {right}"
    )
