"""Options of something that falls back to the broker's options of the same meaning: a topic's, a group's."""

from collections.abc import Mapping
from typing import Any, TypeVar

from tidelog.config.broker import BrokerConfig
from tidelog.config.option import Option, Options

T = TypeVar("T")


class Inheriting(Options):
    """What is given for one entity, and the broker's options that stand behind it."""

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        self.explicit = overrides
        self.broker = broker

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.explicit)!r})"

    def value_of(self, option: Option[T]) -> T:
        text = self.explicit.get(option.name)
        return self.inherited(option) if text is None else option.parse(text)

    def inherited(self, option: Option[T]) -> T:
        """The value without an override: the first synonym given to the broker, else the default."""
        for synonym in option.synonyms:
            text = self.broker.explicit.get(synonym.name)
            if text is not None:
                value: T = _scaled(BrokerConfig.OPTIONS[synonym.name].parse(text), synonym.factor)
                return value
        return option.default


def _scaled(value: Any, factor: int) -> Any:
    """A time in the entity's unit; every negative time means no limit, as in Kafka."""
    if factor == 1 or value is None:
        return value
    return value * factor if value >= 0 else -1
