"""Columns of text, padded as Java's `%-15s` pads them."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

MISSING = "-"


class Column(NamedTuple):
    """`width` is the least width, or 0 for a last column that is not padded; `grows` where longer cells widen it."""

    title: str
    width: int
    grows: bool = False


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[object]], between: str = " ") -> list[str]:
    """The head and the rows, one text a line."""
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
    """The ending of the word for them."""
    return "" if len(items) == 1 else "s"
