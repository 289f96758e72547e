"""One option, declared once: type, default, bounds, whether a running broker can change it, and one sentence about it.

A declaration is a class attribute of a set of options (`BrokerConfig`, `TopicConfig`), written with the functions at
the end of this file: `retention_ms = long(604_800_000, "Age …", at_least=-1)`. Its Kafka name is the attribute's name
with '.' for '_'. Parsing, DescribeConfigs and the reference pages derive from it.

Reading an option on an instance parses the given text once and stores the value in the instance, so the next read does
not come here. Reading does not check bounds; `Options.validate` does, where values come in.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, overload

from tidelog.config import option_types
from tidelog.config.option_types import OptionType
from tidelog.errors import InvalidOption

T = TypeVar("T")


class Dynamic(StrEnum):
    """Who can change an option of a running broker."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Synonym(NamedTuple):
    """A broker option that this one falls back to: its value times `factor` (hours to milliseconds, for example)."""

    name: str
    factor: int = 1


class Option(Generic[T]):
    """A typed, documented option; a descriptor that returns the value on an instance and itself on the class."""

    __slots__ = (
        "at_least", "at_most", "attribute", "check", "choices", "default", "doc", "dynamic", "ignored", "internal",
        "kind", "name", "of_authorizer", "synonyms",
    )  # fmt: skip

    def __init__(
        self,
        kind: OptionType,
        default: T,
        doc: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        choices: Collection[str] = (),
        check: Callable[[Any], str | None] | None = None,
        dynamic: Dynamic = Dynamic.READ_ONLY,
        synonyms: Sequence[Synonym] = (),
        ignored: bool = False,
        internal: bool = False,
        of_authorizer: bool = False,
    ) -> None:
        """`check` returns what a valid value would be, or None if the value is valid. `ignored`: accepted, but without
        effect in Tidelog. `internal`: for tests, listed only if it is set. `of_authorizer`: Kafka's authorizer
        reads it, the broker does not know it: listed only if it is set, and without its value."""
        self.kind = kind
        self.default = default
        self.doc = doc
        self.at_least = at_least
        self.at_most = at_most
        self.choices = choices
        self.check = check
        self.dynamic = dynamic
        self.synonyms = synonyms
        self.ignored = ignored
        self.internal = internal
        self.of_authorizer = of_authorizer
        self.attribute = self.name = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: "Options", owner: type) -> T: ...
    def __get__(self, instance: "Options | None", owner: type) -> Self | T:
        if instance is None:
            return self
        value: T = instance.value_of(self)
        instance.__dict__[self.attribute] = value
        return value

    def __repr__(self) -> str:
        return (
            f"Option({self.name}: {self.kind.name} = {option_types.format_value(self.default)}, {self.bounds or 'any'})"
        )

    @property
    def is_sensitive(self) -> bool:
        return self.kind is option_types.PASSWORD

    @property
    def is_read_only(self) -> bool:
        return self.dynamic is Dynamic.READ_ONLY

    @property
    def bounds(self) -> str:
        """The bounds in words, '' if every value of the type is valid."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        least, most = self.at_least, self.at_most
        if least is not None and most is not None:
            return f"between {least:g} and {most:g}" if least > -1e6 and most < 1e6 else f"between {least} and {most}"
        if least is not None:
            return f"at least {least}"
        return f"at most {most}" if most is not None else ""

    @property
    def _expected(self) -> str:
        """The type and its bounds, as in `a 32-bit integer of at least 1`."""
        if not self.bounds or self.choices:
            return self.bounds or self.kind.expected
        return f"{self.kind.expected} {'' if self.bounds.startswith('between') else 'of '}{self.bounds}"

    def parse(self, text: str) -> T:
        """The value of `text`; InvalidOption if it is not of the option's type."""
        try:
            value: T = self.kind.parse(text.strip() if self.kind is not option_types.PASSWORD else text)
        except ValueError:
            raise InvalidOption(f"{self.name} must be {self._expected}, not {text!r}") from None
        return value

    def checked(self, text: str) -> T:
        """The value of `text`; InvalidOption if it breaks type or bounds."""
        value = self.parse(text)
        expected = self.check(value) if self.check else self._violated_bounds(value)
        if expected:
            shown = "the given value" if self.is_sensitive else repr(text)
            raise InvalidOption(f"{self.name} must be {expected}, not {shown}")
        return value

    def _violated_bounds(self, value: Any) -> str | None:
        if isinstance(value, list):
            within = not self.choices or all(item in self.choices for item in value)
        elif self.choices:
            within = value in self.choices
        else:
            within = (self.at_least is None or value >= self.at_least) and (
                self.at_most is None or value <= self.at_most
            )
        return None if within else self.bounds


class Options:
    """A set of options with the texts given for them."""

    OPTIONS: ClassVar[dict[str, Option[Any]]] = {}
    """Every declared option by Kafka's name, in alphabetical order."""

    explicit: Mapping[str, str]
    """The given values by Kafka's name, including unknown names."""

    def __init_subclass__(cls, *, ignored: bool = False) -> None:
        """With `ignored` every option of the set is accepted without effect."""
        found = {name: option for base in cls.__bases__ for name, option in vars(base).get("OPTIONS", {}).items()}
        for option in vars(cls).values():
            if isinstance(option, Option):
                found[option.name] = option
                option.ignored |= ignored
        cls.OPTIONS = dict(sorted(found.items()))

    def value_of(self, option: Option[T]) -> T:
        """The value in force: the given one, otherwise the default."""
        text = self.explicit.get(option.name)
        return option.default if text is None else option.parse(text)

    @classmethod
    def validate(cls, given: Mapping[str, str]) -> None:
        """InvalidOption for the first value that breaks its option's type or bounds; unknown names are accepted."""
        for name, text in given.items():
            if (option := cls.OPTIONS.get(name)) is not None:
                option.checked(text)


CLUSTER_WIDE = Dynamic.CLUSTER_WIDE
PER_BROKER = Dynamic.PER_BROKER

MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1


def boolean(default: bool, doc: str, **rules: Any) -> Option[bool]:
    return Option(option_types.BOOLEAN, default, doc, **rules)


@overload
def integer(default: int, doc: str, **rules: Any) -> Option[int]: ...
@overload
def integer(default: None, doc: str, **rules: Any) -> Option[int | None]: ...
def integer(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(option_types.INT, default, doc, **rules)


@overload
def long(default: int, doc: str, **rules: Any) -> Option[int]: ...
@overload
def long(default: None, doc: str, **rules: Any) -> Option[int | None]: ...
def long(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(option_types.LONG, default, doc, **rules)


def short(default: int, doc: str, **rules: Any) -> Option[int]:
    return Option(option_types.SHORT, default, doc, **rules)


def double(default: float, doc: str, **rules: Any) -> Option[float]:
    return Option(option_types.DOUBLE, default, doc, **rules)


@overload
def string(default: str, doc: str, **rules: Any) -> Option[str]: ...
@overload
def string(default: None, doc: str, **rules: Any) -> Option[str | None]: ...
def string(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(option_types.STRING, default, doc, **rules)


@overload
def strings(default: list[str], doc: str, **rules: Any) -> Option[list[str]]: ...
@overload
def strings(default: None, doc: str, **rules: Any) -> Option[list[str] | None]: ...
def strings(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(option_types.LIST, default, doc, **rules)


def password(doc: str, **rules: Any) -> Option[str | None]:
    return Option(option_types.PASSWORD, None, doc, **rules)


def class_name(default: str | None, doc: str, **rules: Any) -> Option[str | None]:
    return Option(option_types.CLASS, default, doc, **rules)
