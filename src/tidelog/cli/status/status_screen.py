"""What `tidelog status --watch` shows on a terminal, and what its keys do, without a terminal.

A view has columns and rows; the screen filters, sorts and pages them. Keys: q quits, / filters, arrows and pages move,
s sorts by the next column, r reverses, v shows the next view.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Cell = object
Row = tuple[Cell, ...]

KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "next view",
    "\x1b[D": "last view",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "rubout",
    "\b": "rubout",
}
"""What a terminal sends for keys that are not letters."""
HELP = "q quit  / filter  ↑↓ PgUp PgDn move  s sort  r reverse  v view"


class View(NamedTuple):
    """A table: the titles of its columns, which of them are numbers, and its rows."""

    name: str
    columns: Sequence[str]
    numbers: frozenset[int]
    rows: Sequence[Row]


def split_keys(text: str) -> list[str]:
    """The keys in what a terminal has sent, letters as themselves."""
    found = []
    while text:
        sequence = next((each for each in sorted(KEYS, key=len, reverse=True) if text.startswith(each)), text[0])
        found.append(KEYS.get(sequence, sequence))
        text = text[len(sequence) :]
    return found


@dataclass(slots=True)
class Screen:
    """What the person has chosen. `height` is how many rows fit."""

    views: Sequence[str]
    height: int = 20
    view: int = 0
    find: str = ""
    typing: bool = False
    sort: int | None = None
    reverse: bool = False
    top: int = 0
    quits: bool = False
    total: int = field(default=0)
    """How many rows the last drawing had to show."""

    @property
    def name(self) -> str:
        return self.views[self.view]

    def press(self, key: str, columns: int) -> None:
        """Do what the key says; `columns` are those of the current view."""
        if self.typing:
            self._type(key)
            return
        moves = {
            "up": -1, "k": -1, "down": 1, "j": 1, "page up": -self.height, "page down": self.height, " ": self.height,
            "home": -self.total, "end": self.total,
        }  # fmt: skip
        if key in ("q", "\x03"):
            self.quits = True
        elif key == "/":
            self.typing, self.find = True, ""
        elif key == "escape":
            self.find = ""
        elif key == "s":
            self.sort = 0 if self.sort is None else (self.sort + 1) % columns
        elif key == "r":
            self.reverse = not self.reverse
        elif key in ("v", "next view", "last view"):
            self._show((self.view + (-1 if key == "last view" else 1)) % len(self.views))
        elif key in moves:
            self.top += moves[key]
        self.top = max(0, min(self.top, self.total - self.height))

    def _show(self, view: int) -> None:
        self.view, self.sort, self.reverse, self.top = view, None, False, 0

    def _type(self, key: str) -> None:
        if key == "escape":
            self.typing, self.find = False, ""
        elif key == "enter":
            self.typing = False
        elif key == "rubout":
            self.find = self.find[:-1]
        elif len(key) == 1 and key.isprintable():
            self.find += key
        self.top = 0

    def rows(self, view: View) -> list[Row]:
        """The rows that fit, as they are filtered and sorted."""
        words = self.find.lower().split()
        chosen = [row for row in view.rows if all(any(word in str(cell).lower() for cell in row) for word in words)]
        if self.sort is not None:
            column = self.sort
            chosen.sort(key=lambda row: _order(row[column]), reverse=self.reverse)
        elif self.reverse:
            chosen.reverse()
        self.total = len(chosen)
        self.top = max(0, min(self.top, self.total - self.height))
        return chosen[self.top : self.top + self.height]

    def footer(self) -> str:
        """Which rows are shown, and the keys."""
        if self.typing:
            return f"filter: {self.find}_  (Enter keeps it, Esc clears it)"
        last = min(self.total, self.top + self.height)
        kept = f'  filter "{self.find}"' if self.find else ""
        return f"{min(self.top + 1, last)}-{last} of {self.total}{kept}  {HELP}"


def _order(cell: Cell) -> tuple[int, float, str]:
    """Numbers by their size, before texts; what is unknown last."""
    if cell is None:
        return 2, 0, ""
    return (0, float(cell), "") if isinstance(cell, int | float) else (1, 0, str(cell))
