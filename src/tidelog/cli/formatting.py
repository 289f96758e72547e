"""Tables and lists as Kafka's tools print them; columns are padded as Java's `%-15s` pads them."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

MISSING = "-"


class Column(NamedTuple):
    """`width` is the minimum width, or 0 for a last column without padding; with `grows`, longer cells widen it."""

    title: str
    width: int
    grows: bool = False


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[object]], between: str = " ") -> list[str]:
    """The lines of a table: its header, then its rows; None is printed as `-`."""
    cells = [[MISSING if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max([column.width, *(len(row[number]) for row in cells)]) if column.grows else column.width
        for number, column in enumerate(columns)
    ]
    texts = [[column.title for column in columns], *cells]
    return [between.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in texts]


def comma_list(items: Iterable[object]) -> str:
    return ",".join(map(str, items))


def plural_suffix(items: Collection[object]) -> str:
    """'s' unless there is exactly one item."""
    return "" if len(items) == 1 else "s"
