"""From a certificate's subject to the name of a principal: `ssl.principal.mapping.rules` (KIP-371).

The rules are `RULE:pattern/replacement/[LU]` and `DEFAULT`, separated by commas; the first that matches the whole
subject decides. `DEFAULT` takes the subject as it is. Patterns are Java's; what they share with re2 is supported, so
that no subject can hold a rule for long.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import InvalidOption

OPTION = "ssl.principal.mapping.rules"
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<new>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*"
)
_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}
_GROUP = re.compile(r"\$(\d)")


class Rule(NamedTuple):
    """`pattern` is None for DEFAULT. `replacement` names groups of the pattern as `$1`."""

    pattern: Any
    replacement: str
    case: str

    def applied(self, subject: str) -> str | None:
        """The name for this subject, or None where the rule does not match it."""
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        return _CASES[self.case](_GROUP.sub(lambda group: match[int(group[1])] or "", self.replacement))


def parse(text: str) -> Sequence[Rule]:
    """The rules in order. InvalidOption where the text is not a list of rules."""
    rules: list[Rule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise InvalidOption(
                f"{OPTION}: {text[position:]!r} is not a rule; expected DEFAULT or RULE:pattern/replacement/[LU]"
            )
        rules.append(_rule(match))
        position = match.end() + 1
    return rules or [Rule(None, "", "")]


def _rule(match: re.Match[str]) -> Rule:
    if match["default"]:
        return Rule(None, "", "")
    import re2  # only brokers with such rules need it

    try:
        pattern = re2.compile(match["pattern"])
    except re2.error as problem:
        raise InvalidOption(f"{OPTION}: {match['pattern']!r} is not a regular expression: {problem}") from None
    groups = [int(number) for number in _GROUP.findall(match["new"])]
    if any(number > pattern.groups for number in groups):
        raise InvalidOption(f"{OPTION}: {match['new']!r} names a group that {match['pattern']!r} does not have")
    return Rule(pattern, match["new"], match["case"])


def principal_name(rules: Sequence[Rule], subject: str) -> str | None:
    """The name by the first rule that matches; None where none does, and the connection is refused."""
    return next((name for rule in rules if (name := rule.applied(subject)) is not None), None)
