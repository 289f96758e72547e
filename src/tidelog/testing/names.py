"""What a test author may name: APIs and error codes. A wrong name is a ValueError that lists the valid ones."""

from collections.abc import Iterable
from difflib import get_close_matches

from tidelog.api.registry import APIS
from tidelog.errors import ErrorCode

_KEYS = {api.name.lower(): api.key for api in APIS.values() if api.caller not in ("broker", "tidelog")}
NAMES = {api.key: api.name for api in APIS.values()}
"""The name of each API, by its key."""


def api_key(name: str) -> int:
    """The key of an API that clients call, by its name in Kafka's protocol, in any case.

    >>> api_key("Produce")
    0
    """
    key = _KEYS.get(str(name).lower())
    if key is None:
        valid = [NAMES[each] for each in sorted(_KEYS.values())]
        raise ValueError(f"{name!r} is not an API of Kafka's clients{_hint(str(name), valid)}")
    return key


def error_code(code: str | int) -> ErrorCode:
    """An error code by its name in Kafka's protocol, or by its number.

    >>> error_code("NOT_LEADER_OR_FOLLOWER")
    <ErrorCode.NOT_LEADER_OR_FOLLOWER: 6>
    """
    valid = [each.name for each in ErrorCode if each is not ErrorCode.NONE]
    name = code.upper() if isinstance(code, str) else next((each.name for each in ErrorCode if each == code), "")
    if name not in valid:
        raise ValueError(f"{code!r} is not an error code of Kafka's protocol{_hint(name, valid)}")
    return ErrorCode[name]


def at_least(name: str, value: float, least: float) -> None:
    """Check a number that the caller gave."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise ValueError(f"{name}: {value!r} is not valid; expected a number from {least:g} on")


def _hint(name: str, valid: Iterable[str]) -> str:
    valid = list(valid)
    folded = {each.lower(): each for each in valid}
    close = get_close_matches(name.lower(), folded, 1)
    nearest = f"; did you mean {folded[close[0]]!r}?" if close else ""
    return f"{nearest}\nexpected one of: {', '.join(valid)}"
