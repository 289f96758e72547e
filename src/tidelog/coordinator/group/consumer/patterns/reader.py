"""A pattern, read from left to right."""

import re


class Reader:
    """`folds`: whether case is ignored from here on. `names` are those of groups so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.folds = False
        self.names: set[str] = set()

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._text)

    @property
    def peek(self) -> str:
        """The next character; empty at the end."""
        return self._text[self._at : self._at + 1]

    def next(self) -> str:
        char = self.peek
        self._at += 1
        return char

    def take(self, text: str) -> bool:
        """Pass over the text, if it is what follows."""
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def match(self, expression: str) -> tuple[str, ...] | None:
        """Pass over what the expression, one of ours, matches here; its groups."""
        found = re.compile(expression).match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found.groups()

    def until(self, end: str) -> str:
        """What comes before `end`, or all the rest where that is missing; `end` is passed over."""
        text, _, _ = self._text[self._at :].partition(end)
        self._at = min(self._at + len(text) + len(end), len(self._text))
        return text
