"""SCRAM users as Kafka's `kafka-storage format --add-scram` takes them: `SCRAM-SHA-512=[name=admin,password=…]`.

No message holds anything of a value: it may be a password.
"""

from base64 import b64decode
from collections.abc import Callable
from typing import NamedTuple

from tidelog.errors import InvalidOption
from tidelog.security import scram

SEED_BYTES = 32
_PARTS = ("name", "password", "saltedpassword", "salt", "iterations")
_FORM = "expected SCRAM-SHA-512=[name=NAME,password=PASSWORD]"


class User(NamedTuple):
    """A user, and what brokers keep of the password."""

    name: str
    mechanism: scram.Mechanism
    credential: scram.Credential


def with_password(name: str, mechanism: scram.Mechanism, password: str, entropy: Callable[[int], bytes]) -> User:
    return _user(name, mechanism, password, _new_salt(entropy), scram.MIN_ITERATIONS)


def parse(text: str, entropy: Callable[[int], bytes]) -> User:
    """The user of one `--add-scram`; InvalidOption if it is malformed."""
    name, _, listed = text.strip().partition("=")
    mechanism = scram.MECHANISMS.get(name)
    if mechanism is None:
        raise _invalid(f"the mechanism must be {' or '.join(scram.MECHANISMS)}")
    if not (listed.startswith("[") and listed.endswith("]")):
        raise _invalid("the user's settings must be in square brackets")
    given: dict[str, str] = {}
    for part in listed[1:-1].split(","):
        key, equals, value = part.partition("=")
        if key not in _PARTS or not equals:
            raise _invalid(f"each setting is one of {', '.join(_PARTS)}, with '=' and a value; no value has a comma")
        given[key] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return _parsed(mechanism, given, entropy)


def _parsed(mechanism: scram.Mechanism, given: dict[str, str], entropy: Callable[[int], bytes]) -> User:
    if not given.get("name"):
        raise _invalid("name is missing")
    iterations = given.get("iterations", str(scram.MIN_ITERATIONS))
    if not iterations.isdecimal() or not scram.MIN_ITERATIONS <= int(iterations) <= scram.MAX_ITERATIONS:
        raise _invalid(f"iterations must be a number from {scram.MIN_ITERATIONS} to {scram.MAX_ITERATIONS}")
    salt = _decoded(given["salt"], "salt") if "salt" in given else _new_salt(entropy)
    if given.get("password"):
        return _user(given["name"], mechanism, given["password"], salt, int(iterations))
    if not given.get("saltedpassword"):
        raise _invalid("password (or saltedpassword) is missing")
    if "salt" not in given:
        raise _invalid("saltedpassword needs the salt that was used")
    salted = _decoded(given["saltedpassword"], "saltedpassword")
    return User(given["name"], mechanism, scram.credential(mechanism, salted, salt, int(iterations)))


def _new_salt(entropy: Callable[[int], bytes]) -> bytes:
    """Of the form that unknown users have, too: else an answer would tell that the user exists."""
    return scram.salt_of(entropy(SEED_BYTES))


def _user(name: str, mechanism: scram.Mechanism, password: str, salt: bytes, iterations: int) -> User:
    salted = scram.salted(mechanism, password, salt, iterations)
    return User(name, mechanism, scram.credential(mechanism, salted, salt, iterations))


def _decoded(text: str, part: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise _invalid(f"{part} is not in base64") from None


def _invalid(problem: str) -> InvalidOption:
    return InvalidOption(f"--add-scram: {problem}; {_FORM}.")
