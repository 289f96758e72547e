"""Checks the replicas of a partition, as they were read, against the invariants, and yields findings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from tidelog.audit.core import finding
from tidelog.audit.core.acknowledged import OTHER, Acknowledged
from tidelog.audit.core.comparing import Difference, agree_again
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.merging import ReplicaLog
from tidelog.audit.core.scanning import UNKNOWN
from tidelog.model import TopicPartition

MOST = 10
"""The maximum of findings per kind and partition, and of damage per replica; the rest is counted."""


@dataclass(slots=True)
class Case:
    """One partition. `leader` and `leader_epoch` are -1 if no cluster was queried. `unexplained` counts chunks that
    differ and were not examined."""

    name: TopicPartition
    logs: list[ReplicaLog]
    is_compacted: bool = False
    leader: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    acknowledged: Sequence[Acknowledged] = ()
    differences: list[Difference] = field(default_factory=list)
    unexplained: int = 0
    key_differences: list[str] = field(default_factory=list)

    def log(self, broker: int) -> ReplicaLog:
        return next(log for log in self.logs if log.broker == broker)

    @property
    def authority(self) -> ReplicaLog | None:
        """The replica whose records count: the leader, or the replica that would be elected (rule 8)."""
        led = [log for log in self.logs if log.broker == self.leader]
        return max(led or self.logs, key=lambda log: (log.latest_epoch, log.end, -log.broker), default=None)


def judge(case: Case) -> Iterator[Finding]:
    yield from _faults(case)
    for rule in (_epochs, _lineage, _divergence, _ends, _elections, _lost, _keys, _trouble):
        found = list(rule(case))
        yield from found[:MOST]
        if len(found) > MOST:
            rest = found[MOST]
            yield rest._replace(sentence=f"and {len(found) - MOST} more of this kind", brokers=(), start=-1, end=-1)


def _found(
    case: Case, kind: str, brokers: Sequence[int], sentence: str, start: int = UNKNOWN, end: int = UNKNOWN
) -> Finding:
    return Finding(kind, case.name.topic, case.name.partition, tuple(sorted(brokers)), sentence, start, end)


def _faults(case: Case) -> Iterator[Finding]:
    """I2. Faults beyond the limit of a scan are part of the count of their replica."""
    for log in case.logs:
        for fault in log.faults[:MOST]:
            yield _found(case, fault.kind, [log.broker], fault.sentence, fault.start, fault.end)
        if (rest := len(log.faults) - MOST + log.uncounted) > 0:
            sentence = f"and {rest} more faults"
            first = log.faults[MOST]
            yield _found(case, first.kind, [log.broker], sentence, first.start)


def _epochs(case: Case) -> Iterator[Finding]:
    """I18; and no epoch may exceed that of the partition state."""
    for log in case.logs:
        for epoch, start in log.epochs:
            if UNKNOWN < case.leader_epoch < epoch and not log.info.is_growing:
                sentence = f"holds records of epoch {epoch}, but the partition is in epoch {case.leader_epoch}"
                yield _found(case, finding.EPOCHS, [log.broker], sentence, start)
        if log.checkpointed_epochs is not None and not log.is_empty:
            yield from _kept(case, log, log.checkpointed_epochs)


def _kept(case: Case, log: ReplicaLog, kept: Sequence[tuple[int, int]]) -> Iterator[Finding]:
    if any(low[0] >= high[0] or low[1] >= high[1] for low, high in pairwise(kept)):
        yield _found(
            case, finding.EPOCHS, [log.broker], f"its leader-epoch-checkpoint does not ascend: {_epochs_text(kept)}"
        )
    checkpointed = dict(kept)
    begins = max(log.start, log.info.log_start)
    if kept:  # deleted segments leave this file before the log start is checkpointed, or while the log is read
        begins = max(begins, kept[0][1])
    bounds = [first for _, first in log.epochs[1:]] + [log.end]
    for number, (epoch, first) in enumerate(log.epochs):
        is_deleted = bounds[number] <= begins or (first < begins and epoch < kept[0][0] if kept else False)
        if is_deleted or log.hides(first) or log.hides(first - 1) or epoch < 0:
            continue
        start = checkpointed.get(epoch)
        if number == 0 and start is not None and start < log.start and not case.is_compacted:
            sentence = f"epoch {epoch} begins at offset {start}, but the log begins at {log.start}"
            yield _found(case, finding.BEGINNING, [log.broker], sentence, start, log.start)
        elif start != max(first, begins) and not (case.is_compacted and start is not None and start <= first):
            entry = "has no entry" if start is None else f"begins at {start}"
            sentence = f"epoch {epoch} begins at offset {first} of the log, and {entry} in its leader-epoch-checkpoint"
            yield _found(case, finding.EPOCHS, [log.broker], sentence, first)


def _epochs_text(epochs: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{epoch}@{start}" for epoch, start in epochs)


def _lineage(case: Case) -> Iterator[Finding]:
    """I3. An epoch has one leader, so its first record is the same on every replica."""
    if case.is_compacted:
        return
    for one, other in combinations([log for log in case.logs if not log.is_empty], 2):
        theirs = dict(other.epochs)
        bottom = max(one.start, other.start)
        for epoch, first in one.epochs:
            second = theirs.get(epoch)
            if second is None or epoch < 0 or max(first, second) <= bottom or first == second:
                continue
            if not one.hides(min(first, second)) and not other.hides(min(first, second)):
                sentence = f"epoch {epoch} begins at {first} on broker {one.broker}, at {second} on {other.broker}"
                low, high = sorted((first, second))
                yield _found(case, finding.LINEAGE, [one.broker, other.broker], sentence, low, high)


def _divergence(case: Case) -> Iterator[Finding]:
    """I3 and I4."""
    for pairs in _alike(case.differences):
        first = pairs[0]
        again = max(agree_again(case.log(each.one), case.log(each.other), each.start) for each in pairs)
        committed = max(_both_committed(case, each) for each in pairs)
        brokers = sorted({broker for each in pairs for broker in each[:2]})
        where = f"offset {first.start}" if first.end - first.start == 1 else f"offsets {first.start} to {first.end - 1}"
        if again >= 0:
            both = "" if again == first.start else f", and both the same epoch at {again}"
            sentence = f"at {where} {_held(pairs)}{both}"
            found = _found(case, finding.DIVERGENCE, brokers, sentence, first.start, first.end)
            yield found._replace(odd=_odd(pairs))
        elif first.start < committed:
            sentence = f"at {where} {_held(pairs)}, below the high watermarks of both ({committed})"
            found = _found(case, finding.COMMITTED, brokers, sentence, first.start, first.end)
            yield found._replace(odd=_odd(pairs))
    if case.unexplained:
        sentence = f"{case.unexplained} more chunks of offsets differ"
        yield _found(case, finding.DIVERGENCE, [log.broker for log in case.logs], sentence)


def _both_committed(case: Case, each: Difference) -> int:
    return min(case.log(each.one).info.high_watermark, case.log(each.other).info.high_watermark)


def _alike(differences: Sequence[Difference]) -> Iterator[list[Difference]]:
    """Differences grouped by their offsets; if one replica differs from others that agree, its differences form one
    group."""
    by_place: dict[tuple[int, int], list[Difference]] = {}
    for each in sorted(differences, key=lambda one: (one.start, one.end)):
        by_place.setdefault((each.start, each.end), []).append(each)
    for pairs in by_place.values():
        if len(pairs) > 1 and _odd(pairs) != UNKNOWN:
            yield pairs
        else:
            yield from ([each] for each in pairs)


def _odd(pairs: Sequence[Difference]) -> int:
    """The broker that is in every pair while the others all hold the same epoch; UNKNOWN if there is none."""
    if len(pairs) == 1:
        return UNKNOWN
    common = set.intersection(*(set(each[:2]) for each in pairs))
    if len(common) != 1:
        return UNKNOWN
    (odd,) = common
    others = {each.epochs[0] if each.other == odd else each.epochs[1] for each in pairs}
    return odd if len(others) == 1 else UNKNOWN


def _held(pairs: Sequence[Difference]) -> str:
    first = pairs[0]
    if len(pairs) == 1:
        held = (f"broker {broker} holds {_batch(epoch)}" for broker, epoch in zip(first[:2], first.epochs, strict=True))
        return ", ".join(held)
    odd = _odd(pairs)
    own, its = first.epochs if first.one == odd else first.epochs[::-1]
    others = sorted({broker for each in pairs for broker in each[:2]} - {odd})
    return f"broker {odd} holds {_batch(own)}, brokers {', '.join(map(str, others))} another of epoch {its}"


def _batch(epoch: int) -> str:
    return "no batch that begins there" if epoch == UNKNOWN else f"a batch of epoch {epoch}"


def _ends(case: Case) -> Iterator[Finding]:
    """I9. A log that ends too early, by the checkpoints in its own folder, or by the leader if it is in sync."""
    led = next((log for log in case.logs if log.broker == case.leader), None)
    for log in case.logs:
        info, end = log.info, max(log.end, log.info.log_start, 0)
        if info.ends_at_watermark or log.trouble:
            continue
        for promise, what in ((info.high_watermark, "committed"), (info.recovery_point, "synced")):
            if promise > end:
                sentence = f"ends at offset {end}, and was {what} up to {promise}"
                yield _found(case, finding.SHORT, [log.broker], sentence, end, promise)
                break
        else:
            if led is None or led is log or led.info.high_watermark <= end:
                continue
            if info.in_sync:
                sentence = f"is in sync and ends at offset {end}, below the leader's high watermark"
                yield _found(case, finding.SHORT, [log.broker], sentence, end, led.info.high_watermark)
            else:
                yield _found(case, finding.BEHIND, [log.broker], f"is not in sync and ends at offset {end}")


def _elections(case: Case) -> Iterator[Finding]:
    """I5. Records of an older epoch that the replica whose records count does not have."""
    best = case.authority
    if best is None or case.is_compacted:
        return
    for log in case.logs:
        if log is best or log.is_empty:
            continue
        start, end = _beyond(case, best, log)
        if start >= end:
            continue
        what = f"{_count(end - start)} from offset {start} on, of epoch {log.epoch_at(start)}"
        newer = f"broker {best.broker}, in epoch {best.latest_epoch}, never had"
        lost = min(end, log.info.high_watermark) - start
        if lost > 0:
            sentence = f"holds {what}, which {newer}; {lost} of them were committed"
            yield _found(case, finding.ELECTION, [log.broker], sentence, start, end)
        elif best.info.is_leader or not log.info.is_growing:
            yield _found(case, finding.TAIL, [log.broker], f"holds {what}, uncommitted, which {newer}", start, end)


def _count(offsets: int) -> str:
    return "1 offset" if offsets == 1 else f"{offsets} offsets"


def _beyond(case: Case, best: ReplicaLog, log: ReplicaLog) -> tuple[int, int]:
    """Offsets [start, end) where `log` holds an older epoch than `best`."""
    pairs = [each for each in case.differences if {each.one, each.other} == {best.broker, log.broker}]
    for each in sorted(pairs, key=lambda difference: difference.start):
        own, its = each.epochs if each.one == log.broker else each.epochs[::-1]
        if UNKNOWN < own < its or (own > UNKNOWN and own < best.epoch_at(each.start)):
            again = agree_again(best, log, each.start)
            return each.start, again if again >= 0 else log.end
    if log.end > best.end and log.epoch_at(best.end) < best.latest_epoch and not best.info.ends_at_watermark:
        return max(best.end, log.start), log.end
    return 0, 0


def _lost(case: Case) -> Iterator[Finding]:
    """I10 and I11, from acknowledgements to clients. In compacted topics acknowledged records may be gone."""
    best = case.authority
    if best is None or case.is_compacted:
        return
    for each in case.acknowledged:
        by_state: dict[str, list[ReplicaLog]] = {state: [] for state in (_HAS, _LACKS, _UNKNOWN, _DELETED)}
        for log in case.logs:
            by_state[_state(case, log, each)].append(log)
        if best in by_state[_HAS] or not by_state[_LACKS]:
            continue
        if not by_state[_HAS]:
            yield _nowhere(case, each, by_state[_LACKS], by_state[_UNKNOWN])
        elif best in by_state[_LACKS] and not (best.info.ends_at_watermark and each.offset >= best.end):
            names = ", ".join(str(log.broker) for log in by_state[_HAS])
            sentence = (
                f"the record acknowledged at offset {each.offset} is on broker {names} only, not on {best.broker}"
            )
            yield _found(case, finding.ACKNOWLEDGED, [best.broker], sentence, each.offset, each.offset + 1)


_HAS, _LACKS, _UNKNOWN, _DELETED = "has", "lacks", "unknown", "deleted"


def _state(case: Case, log: ReplicaLog, each: Acknowledged) -> str:
    """Whether the replica has the record. If the replica was not read as a whole, a missing record is unknown. So is a
    replica that never held anything, unless a cluster reports that the topic exists."""
    if log.start <= each.offset < log.end and each not in log.missing:
        return _HAS
    is_behind = log.info.ends_at_watermark and not log.info.is_leader and each.offset >= log.end
    is_blank = log.is_empty and not log.checkpointed_epochs and case.leader == UNKNOWN
    if log.trouble or is_behind or is_blank:
        return _UNKNOWN
    begins = log.info.log_start if log.start == UNKNOWN else log.start
    return _DELETED if begins > each.offset else _LACKS


def _nowhere(case: Case, each: Acknowledged, lacking: Sequence[ReplicaLog], unknown: Sequence[ReplicaLog]) -> Finding:
    is_other = any(log.missing.get(each) == OTHER for log in lacking)
    what = f"; {OTHER} is there" if is_other else ""
    where = "on no replica that could be read" if unknown else "on no replica"
    sentence = f"the record acknowledged at offset {each.offset} is {where}{what}"
    return _found(case, finding.ACKNOWLEDGED, (), sentence, each.offset, each.offset + 1)


def _keys(case: Case) -> Iterator[Finding]:
    brokers = [log.broker for log in case.logs]
    yield from (_found(case, finding.KEYS, brokers, sentence) for sentence in case.key_differences)


def _trouble(case: Case) -> Iterator[Finding]:
    for log in case.logs:
        reported = {fault.sentence for fault in log.faults}
        for trouble in log.trouble:
            if trouble not in reported:
                yield _found(case, finding.UNREADABLE, [log.broker], trouble)


def first_divergence(findings: Sequence[Finding]) -> int:
    """The lowest offset from which replicas differ although they must not; -1 if there is none."""
    kinds = (finding.DIVERGENCE, finding.COMMITTED, finding.LINEAGE)
    return min((each.start for each in findings if each.kind in kinds and each.start >= 0), default=-1)
