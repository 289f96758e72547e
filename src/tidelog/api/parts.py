"""How a request with many entries is served: as several requests with a part of its entries each, one after the other,
with other connections served in between. Their answers are merged into one.

So a handler never sees more entries than it serves in a few milliseconds, and needs no code for this. What a request
means does not change, with two exceptions: not all of it happens at once, and an entry that is repeated more than twice
counts as repeated twice (the last two, in one part: whether the last one wins or both are refused, it is as with all).
"""

from collections.abc import Generator, Iterator, Sequence
from copy import copy
from itertools import groupby
from typing import Any

from tidelog.errors import ProtocolViolation
from tidelog.wire.message import fields, key_of
from tidelog.wire.primitives import refuse_entries
from tidelog.wire.refusals import ENTRIES, ITSELF, Entries, entries_of, numbers_of
from tidelog.wire.source import STEP

MOST_ENTRIES = 100_000
"""Entries of all arrays of a request. They take some 100 MB together with their answers."""
MOST_WHOLE = 20_000
"""Entries of a request that cannot be split: of another API, or with one entry that has arrays of its own."""
MOST_OF = {
    32: 10_000,  # DescribeConfigs: 10 KB of answer for each
    33: 20_000,  # AlterConfigs
    34: 5_000,  # AlterReplicaLogDirs
    44: 20_000,  # IncrementalAlterConfigs
    51: 5_000,  # AlterUserScramCredentials
    57: 1_000,  # UpdateFeatures: a sentence for each
    75: 5_000,  # DescribeTopicPartitions
}
"""By API key, where an entry takes more time or memory than others."""

MAY_BE_LARGE = frozenset({15, 29, 31, 43, 46, 65, 69})
"""API keys of answers that are not made by handlers, and may have more entries than their requests: they are encoded
in steps."""

_AT_ONCE = 500
"""Entries that are served in a few milliseconds."""
_AT_ONCE_OF = {
    3: 100,  # Metadata: an entry is answered with all partitions of the topic
    8: 1000,  # OffsetCommit: as many as possible in one batch of records, which is committed as a whole
    15: 50,  # DescribeGroups: with all members
    27: 100,  # WriteTxnMarkers: a batch of records each
    28: 1000,  # TxnOffsetCommit
    32: 20,  # DescribeConfigs: with all options
    69: 50,  # ConsumerGroupDescribe: with all members
}
"""By API key."""

_COMMITTED = entries_of(
    "partition_indexes", "partitions", f"{ITSELF}=partition_index", fixed=(("committed_offset", -1), ("metadata", ""))
)

SPLIT: dict[int, tuple[Entries, ...]] = {key: found for key, found in ENTRIES.items() if key not in (1, 34, 51, 75)} | {
    3: (entries_of("topics", "topics", "name", "topic_id"),),
    9: (
        entries_of(
            "groups",
            "groups",
            "group_id",
            inner=entries_of("topics", "topics", "name", "topic_id", inner=_COMMITTED),
        ),
        entries_of("topics", "topics", "name", inner=_COMMITTED),
    ),
    13: (entries_of("members", "members", "member_id", "group_instance_id"),),
    46: (entries_of("topics", "topics", "name", inner=numbers_of("partition_indexes")),),
    50: (entries_of("users", "results", "name=user"),),
}
"""By API key: the lists that can be split, of which a request uses one. What is missing is served as a whole: Fetch
(1), which pauses by itself, AlterReplicaLogDirs (34), whose answer has another shape, AlterUserScramCredentials (51),
which looks for the same user in two lists, and DescribeTopicPartitions (75), which has pages of its own."""

Path = tuple[Any, ...]
"""An entry of the innermost list (or one without an inner list), behind the entries that it is in."""


def at_once(key: int) -> int:
    """The number of entries up to which a request of this API is served as it is."""
    return _AT_ONCE_OF.get(key, _AT_ONCE)


def splitting(request: Any, entries: int) -> Entries | None:
    """The list by which a request with that many entries is split; None: it is served as a whole."""
    key = key_of(request)
    found = next((each for each in SPLIT.get(key, ()) if getattr(request, each.requested)), None)
    most = MOST_OF.get(key, MOST_ENTRIES if found is not None or key == 1 else MOST_WHOLE)
    if (entries if found is None else len(getattr(request, found.requested))) > most:
        refuse_entries(most)
    return found


def parts(request: Any, entries: Entries) -> Generator[None, None, list[list[Path]]]:
    """What each part serves, for `part`; pauses while it goes through the entries."""
    found: dict[Any, list[Path]] = {}
    for count, path in enumerate(paths(request, entries)):
        key = _key(path, entries, count)
        same = found.setdefault(key, [])
        same.append(path)
        if len(same) > 2:
            del same[0]
        if not count % STEP:
            yield
    made: list[list[Path]] = []
    size = room = at_once(key_of(request))
    for count, same in enumerate(found.values()):
        weight = sum(map(_weight, same))
        if weight > room or not made:
            made.append([])
            room = size
        made[-1] += same
        room -= weight
        if not count % STEP:
            yield
    return made


def part(request: Any, entries: Entries, chosen: Sequence[Path]) -> Any:
    """The request with these of its entries."""
    made = copy(request)
    setattr(made, entries.requested, _rebuilt(chosen, entries, 0))
    return made


def merge(whole: Any, answer: Any, entries: Entries) -> None:
    """Add the answer of one part to that of the parts before."""
    for field in fields(answer):
        ours, theirs = getattr(whole, field.name), getattr(answer, field.name)
        if field.name == entries.answers:
            _merge(ours, theirs, entries)
        elif field.name == "error_code":
            whole.error_code = ours or theirs
        elif field.name == "throttle_time_ms":
            whole.throttle_time_ms = max(ours, theirs)
        elif isinstance(ours, list):
            ours += [each for each in theirs if each not in ours]


def paths(holder: Any, entries: Entries, before: Path = ()) -> Iterator[Path]:
    """The entries of a request, in their order."""
    for each in getattr(holder, entries.requested) or ():
        path = (*before, each)
        if entries.inner is None or not getattr(each, entries.inner.requested):
            yield path
        else:
            yield from paths(each, entries.inner, path)


def _key(path: Path, entries: Entries | None, count: int) -> Any:
    """Equal for entries that name the same; `count` where nothing names them."""
    key = []
    for each in path:
        assert entries is not None
        if not entries.named:
            return count
        key.append(tuple(getattr(each, ours) if ours != ITSELF else each for ours, _ in entries.named))
        entries = entries.inner
    return tuple(key)


def _weight(path: Path) -> int:
    """One, and the entries of arrays in the innermost entry."""
    weight = 1 + _arrays(path[-1])
    if weight > MOST_WHOLE:
        raise ProtocolViolation(f"an entry with more than {MOST_WHOLE} entries of its own")
    return weight


def _arrays(of: Any) -> int:
    if isinstance(of, str | int | bytes):
        return 0
    count = 0
    for field in fields(of):
        if field.kind.name == "array":
            value = getattr(of, field.name) or ()
            count += len(value)
            if isinstance(field.element, type):
                count += sum(map(_arrays, value))
    return count


def _rebuilt(paths: Sequence[Path], entries: Entries, level: int) -> list[Any]:
    made = []
    for _, group in groupby(paths, key=lambda path: id(path[level])):
        members = list(group)
        outer = members[0][level]
        if len(members[0]) == level + 1:
            made += [path[level] for path in members]
            continue
        assert entries.inner is not None
        outer = copy(outer)
        setattr(outer, entries.inner.requested, _rebuilt(members, entries.inner, level + 1))
        made.append(outer)
    return made


def _merge(whole: list[Any], answers: list[Any], entries: Entries) -> None:
    """An entry that was split is answered by several parts: what they answer goes into one."""
    inner = entries.inner
    if inner is None or not whole:
        whole += answers
        return
    last = whole[-1]
    for each in answers:
        if all(getattr(last, theirs) == getattr(each, theirs) for _, theirs in entries.named):
            if getattr(each, "error_code", 0) and not last.error_code:
                last.error_code = each.error_code
            _merge(getattr(last, inner.answers), getattr(each, inner.answers), inner)
        else:
            whole.append(each)
