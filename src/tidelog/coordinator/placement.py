"""The partition of its internal topic that a coordinator's key belongs to, computed as every Kafka broker does."""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


@lru_cache(maxsize=4096)
def partition_for(key: str, partitions: int) -> int:
    """Java's hash code of the string, without its sign, by the number of partitions."""
    code = java_hash(key)
    return (0 if code == -_SIGN else abs(code)) % partitions


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 code units, as a signed 32-bit number."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _MASK
    return code - 2 * _SIGN if code & _SIGN else code
