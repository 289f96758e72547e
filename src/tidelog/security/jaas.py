"""Logins in the form of Java's JAAS files: `org…PlainLoginModule required username="a" password="b" user_x="y";`"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.errors import InvalidOption

_LOGIN = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)\b(?P<rest>.*);\s*", re.DOTALL
)
_PAIR = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s"';]+))""")
_BODY = r"""((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"'}])*)"""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Login(NamedTuple):
    """`module` is the last word of the class name, such as PlainLoginModule."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module}, {len(self.options)} options)"

    @property
    def users(self) -> dict[str, str]:
        """The passwords of PlainLoginModule's `user_NAME` options, by name."""
        return {name.removeprefix("user_"): text for name, text in self.options.items() if name.startswith("user_")}


def section(text: str, name: str) -> str | None:
    """The login in the section NAME { … }; of a JAAS file; None if it has no such section."""
    match = re.search(rf"(?:^|[\s;}}]){re.escape(name)}\s*{{{_BODY}}}\s*;", text)
    return None if match is None else match[1]


def parse(text: str, option: str = "sasl.jaas.config") -> Login:
    """One login. InvalidOption where the text is none; the message holds nothing of it, for it has passwords."""
    match = _LOGIN.fullmatch(text)
    options: dict[str, str] = {}
    if match is not None:
        rest = match["rest"]
        position = 0
        while position < len(rest) and (pair := _PAIR.match(rest, position)):
            value = next(group for group in pair.groups()[1:] if group is not None)
            options[pair[1]] = _ESCAPE.sub(r"\1", value)
            position = pair.end()
        if not rest[position:].strip():
            return Login(match["module"].rpartition(".")[2], options)
    raise InvalidOption(
        f'{option} is not a JAAS login; expected MODULE required name="value" …; (the text is not shown)'
    )
