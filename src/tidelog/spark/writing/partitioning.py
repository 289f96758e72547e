"""Which partition each row goes to: its own if it names one, otherwise by its key as Kafka's Java producer decides,
otherwise with its neighbours to a partition that changes after a batch's worth of bytes (KIP-794)."""

import random
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelog.spark.writing.encoding import Numbers, Rows

_M = np.uint32(0x5BD1E995)
_SEED = 0x9747B28C


def murmur2(keys: pa.Array) -> NDArray[np.uint32]:
    """The 32-bit MurmurHash2 of binary keys with Kafka's seed, for all keys in parallel, four bytes at a time. A null
    key hashes like an empty one."""
    count = len(keys)
    _, bounds, raw = keys.buffers()
    places = np.frombuffer(bounds, np.int32, count + 1 + keys.offset)[keys.offset :].astype(np.int64)
    data = np.concatenate((np.frombuffer(raw or b"", np.uint8), np.zeros(4, np.uint8)))
    words: NDArray[np.uint32] = np.ndarray((len(data) - 3,), "<u4", data, 0, (1,))
    sizes = np.diff(places)
    order = np.argsort(-sizes, kind="stable")
    starts, sizes = places[:-1][order], sizes[order]
    hashed = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    whole = sizes >> 2
    for step, active in enumerate(np.searchsorted(-whole, -np.arange(whole.max(initial=0)), side="left")):
        word = words[starts[:active] + 4 * step] * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        hashed[:active] = (hashed[:active] * _M) ^ word
    rest = sizes & 3
    longer = np.flatnonzero(rest)
    if longer.size:
        mask = (np.uint32(1) << (8 * rest[longer]).astype(np.uint32)) - np.uint32(1)
        hashed[longer] = (hashed[longer] ^ (words[starts[longer] + 4 * whole[longer]] & mask)) * _M
    hashed = (hashed ^ (hashed >> np.uint32(13))) * _M
    hashed = hashed ^ (hashed >> np.uint32(15))
    found = np.empty(count, np.uint32)
    found[order] = hashed
    return found


class Partitioner:
    """Rows of one topic after another; `batch_bytes` go to one partition before the next."""

    def __init__(self, batch_bytes: int, *, ignores_keys: bool) -> None:
        self._batch_bytes = batch_bytes
        self._ignores_keys = ignores_keys
        self._chosen: dict[str, int] = {}
        self._gone: dict[str, int] = {}

    def place(self, topic: str, rows: Rows, named: pa.Array | None, partitions: Mapping[int, int]) -> Numbers:
        """A partition for each row. `partitions` are the topic's, with their leaders or -1; `named` may hold nulls.
        ValueError if a row names one that does not exist."""
        count = len(rows.values)
        found = np.full(count, -1, np.int64)
        keyed = np.zeros(count, np.bool_)
        if rows.keys is not None and not self._ignores_keys:
            keyed = np.asarray(rows.keys.is_valid())
            if keyed.any():
                hashed = (murmur2(rows.keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % len(partitions)
                found = np.where(keyed, hashed, found)
        if named is not None:
            chosen = np.asarray(named.is_valid())
            places = np.asarray(named.fill_null(0)).astype(np.int64)
            _check_named(topic, places[chosen], partitions)
            found = np.where(chosen, places, found)
            keyed = keyed | chosen
        free = np.flatnonzero(~keyed)
        if free.size:
            found[free] = self._sticky(topic, rows.sizes[free], partitions)
        return found

    def _sticky(self, topic: str, sizes: Numbers, partitions: Mapping[int, int]) -> Numbers:
        """Runs of neighbours; the last run continues until it is full."""
        begun = self._gone.get(topic, 0)
        ends = begun + np.cumsum(sizes)
        runs = (ends - sizes) // self._batch_bytes
        chosen = [self._chosen[topic]] if topic in self._chosen and self._chosen[topic] in partitions else []
        while len(chosen) <= runs[-1]:
            chosen.append(_other(partitions, chosen[-1] if chosen else None))
        self._chosen[topic] = chosen[int(runs[-1])]
        self._gone[topic] = int(ends[-1] - runs[-1] * self._batch_bytes)
        found: Numbers = np.array(chosen, np.int64)[runs]
        return found


def _other(partitions: Mapping[int, int], last: int | None) -> int:
    """A random one with a leader, if any, and different from the last if possible."""
    choice = [number for number, leader in partitions.items() if leader >= 0] or list(partitions)
    if len(choice) > 1 and last in choice:
        choice.remove(last)
    return random.choice(choice)  # noqa: S311  chance only spreads the load


def _check_named(topic: str, places: Numbers, partitions: Mapping[int, int]) -> None:
    unknown = set(np.unique(places).tolist()).difference(partitions)
    if unknown:
        raise ValueError(
            f"column 'partition' names {min(unknown)}, but topic {topic} has partitions 0 to {len(partitions) - 1}"
        )
