"""Java's properties format, the format of `server.properties`: text to a dictionary and back.

A trailing backslash joins lines; `#` and `!` start comments; the key ends at `=`, `:` or a blank. A later line
overrides an earlier one with the same key.
"""

import re
from collections.abc import Mapping

from tidelog.errors import InvalidOption

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IN_VALUE = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IN_KEY = {**_IN_VALUE, **{char: f"\\{char}" for char in " \f=:#!"}}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


def parse(text: str) -> dict[str, str]:
    """The pairs of a properties file; InvalidOption for a malformed \\u escape, with the key of its line."""
    pairs = {}
    for line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None  # the expression matches the empty string too
        key = _unescape(match[1], line)
        pairs[key] = _unescape(line[match.end() :], key)
    return pairs


def text(pairs: Mapping[str, str]) -> str:
    """A file that `parse` reads as these pairs."""
    return "".join(f"{_escape(key, _IN_KEY)}={_escape(value, _IN_VALUE)}\n" for key, value in pairs.items())


def _escape(text: str, special: Mapping[str, str]) -> str:
    escaped = "".join(special.get(char, char) for char in text)
    return f"\\{escaped}" if escaped[:1] in {" ", "\f"} else escaped


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    open_line = False
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not open_line and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        body = line[:-1] if continued else line
        if open_line:
            lines[-1] += body
        else:
            lines.append(body)
        open_line = continued
    return lines


def _unescape(text: str, key: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            # The value is not shown: it may be a password.
            raise InvalidOption(f"{key}: \\u must be followed by four hexadecimal digits")
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _ESCAPED.sub(character, text)
