"""Lists as several tools of Kafka print them."""

from collections.abc import Collection, Iterable


def listed(items: Iterable[object]) -> str:
    return ",".join(map(str, items))


def plural(items: Collection[object]) -> str:
    """The ending of the word for them."""
    return "" if len(items) == 1 else "s"
