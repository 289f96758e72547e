"""Which partition a record goes to, as Kafka's Java producer decides it, so that a key goes to the same partition
whichever client wrote it."""

from collections.abc import Sequence

from tidelog.client.backoff import Entropy, below

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """The key's 32-bit MurmurHash2, unsigned, with Kafka's seed."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word = (word ^ (word >> 24)) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ word
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ (hashed >> 13)) * _M & _MASK
    return hashed ^ (hashed >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a record with a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Sticky:
    """Records without keys stay with one partition until it got a batch's worth of bytes, then change (KIP-794)."""

    def __init__(self, entropy: Entropy, batch_bytes: int) -> None:
        self._entropy = entropy
        self._batch_bytes = batch_bytes
        self._chosen: dict[str, int] = {}
        self._bytes: dict[str, int] = {}

    def partition(self, topic: str, partitions: int, available: Sequence[int], size: int) -> int:
        """The partition for a record of about `size` bytes; `available` are the partitions with a leader, if any."""
        chosen = self._chosen.get(topic)
        gone = self._bytes.get(topic, 0)
        if (
            chosen is None
            or chosen >= partitions
            or gone >= self._batch_bytes
            or (available and chosen not in available)
        ):
            chosen = self._other(topic, partitions, available)
            gone = 0
        self._chosen[topic] = chosen
        self._bytes[topic] = gone + size
        return chosen

    def _other(self, topic: str, partitions: int, available: Sequence[int]) -> int:
        """A random one, but a different one if possible."""
        choice = list(available) or list(range(partitions))
        if len(choice) > 1 and self._chosen.get(topic) in choice:
            choice.remove(self._chosen[topic])
        return choice[below(self._entropy, len(choice))]
