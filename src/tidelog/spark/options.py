"""Reading options, for the source and the sink: names in any case, one error for each invalid one, and `kafka.*` passed
on to the client with the names of Kafka's Java clients."""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from tidelog.client import properties
from tidelog.client.options import ClientOptions, parse
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.shell.client_security import security_of
from tidelog.shell.client_sockets import addresses

O = TypeVar("O", bound=ClientOptions)  # noqa: E741

BOOTSTRAP = "kafka.bootstrap.servers"
KAFKA = "kafka."
_OPTION_NAME = re.compile(r"[\w.-]*\w")
PROTOCOL = "security.protocol"
PLAINTEXT = "PLAINTEXT"
UNREACHED = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)

_SECURED = ("ssl.", "sasl.")

UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class BadOption(ValueError):
    """An option that is unknown, missing, invalid or in conflict with another; the message names it and what to write
    instead."""


def lowered(given: Mapping[str, str], known: AbstractSet[str]) -> dict[str, str]:
    """The options with lower-case names; BadOption for one that is neither known nor `kafka.*`."""
    options = {name.lower(): value for name, value in given.items()}
    names = {name.lower() for name in known}
    unknown = sorted(name for name in options if name not in names and not name.startswith(KAFKA))
    if unknown:
        raise BadOption(f"unknown option {unknown[0]!r}; there are {', '.join(sorted(known))} and kafka.*")
    return options


def bootstrap_of(options: Mapping[str, str], what: str) -> str:
    """The bootstrap brokers; BadOption if none is given or one is not host:port."""
    text = options.get(BOOTSTRAP, "").strip()
    if not text:
        raise BadOption(f"option {BOOTSTRAP!r} must be given for {what}: host:port, several with commas between them")
    try:
        addresses(text)
    except ValueError as reason:
        raise BadOption(f"option {BOOTSTRAP!r}: {reason}; it is a list like host1:9092,host2:9092") from None
    return text


def unreached(bootstrap: str, within_ms: int, error: ApiError) -> ConnectionError:
    """The error of a query when no broker answers."""
    return ConnectionError(
        f"no broker of option {BOOTSTRAP!r} ({bootstrap}) answered within {within_ms / 1000:g} s: {error}; check that "
        "the address is one that brokers listen at and that this host reaches"
    )


def _is_of_other_logins(kind: type[O], name: str) -> bool:
    """Such as the names of Java classes that get a token."""
    return name.startswith(properties.OF_LOGINS) and name.replace(".", "_") not in kind.__dataclass_fields__


def client_options(
    kind: type[O], options: Mapping[str, str], others: AbstractSet[str], forbidden: Mapping[str, str]
) -> O:
    """The `kafka.*` options of a client of this kind. `others` are options of its Java counterpart without effect
    here."""
    given = {name.removeprefix(KAFKA): text for name, text in options.items() if name.startswith(KAFKA)}
    given.pop("bootstrap.servers", None)
    try:
        given = properties.renamed(given)
    except InvalidOption as reason:
        raise client_refusal(reason) from None
    for name, instead in forbidden.items():
        if name in given:
            raise BadOption(f"Kafka option '{KAFKA}{name}' is not supported: {instead}")
    meant = {
        name: text.strip()
        for name, text in given.items()
        if name not in properties.WITHOUT_EFFECT and name not in others and not _is_of_other_logins(kind, name)
    }
    if meant.get(PROTOCOL, PLAINTEXT).upper() == PLAINTEXT:
        meant = {name: text for name, text in meant.items() if not name.startswith(_SECURED)}
    try:
        found = parse(kind, meant)
        security_of(found)
    except InvalidOption as reason:
        raise client_refusal(reason) from None
    return found


def client_refusal(reason: InvalidOption) -> BadOption:
    """The client's sentence, which begins with its name of the option, under the name that the user gave."""
    match = _OPTION_NAME.match(str(reason))
    assert match is not None
    return BadOption(f"option '{KAFKA}{match[0]}'{str(reason)[match.end() :]}")


def number(least: int) -> Callable[[str, str], int]:
    """Returns a parser of integers of at least that."""

    def read(name: str, text: str) -> int:
        try:
            found = int(text.strip())
        except ValueError:
            found = least - 1
        if found < least:
            raise BadOption(f"option {name!r} must be an integer of at least {least}, not {text!r}")
        return found

    return read


def boolean(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise BadOption(f"option {name!r} must be true or false, not {text!r}")
    return text.strip().lower() == "true"


def duration_ms(name: str, text: str) -> int:
    """A duration as Spark writes it: 15m, 30s, 500ms; a bare number is milliseconds."""
    digits = text.strip().lower()
    unit = digits.lstrip("0123456789").strip()
    count = digits[: len(digits) - len(unit)].strip() if unit else digits
    if not count.isdigit() or (unit or "ms") not in UNITS_MS:
        raise BadOption(f"option {name!r} is a time like 15m, 30s or 500ms, not {text!r}")
    return int(int(count) * UNITS_MS[unit or "ms"])


def names(name: str, text: str) -> tuple[str, ...]:
    """Names separated by commas, at least one."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise BadOption(f"option {name!r} names nothing: {text!r}")
    return found


def value(options: Mapping[str, str], name: str, read: Callable[[str, str], Any], default: Any = None) -> Any:
    """The option's value, or the default if it is not given."""
    text = options.get(name.lower())
    return default if text is None else read(name, text)
