"""Options of console tools that are written `name=value`: gathered from files, properties and flags of our own."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tidelog.cli.options import usage

NOT_OURS = ("bootstrap.servers", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
"""What Kafka's configuration files say of things that are given elsewhere here."""


def client_options(file: str | None, pairs: Iterable[tuple[str, str]], flags: Mapping[str, object]) -> dict[str, str]:
    """A client's options by Kafka's names: the file's, over them the pairs, over them the flags that are given."""
    from tidelog.config import properties

    found = properties.parse(Path(file).read_text(encoding="utf-8")) if file else {}
    found.update(pairs)
    found.update({name: str(value) for name, value in flags.items() if value is not None})
    return {name: value for name, value in found.items() if name not in NOT_OURS}


def is_true(given: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A property that is true or false; anything but "true" is false, as in Kafka's tools."""
    return given[name].strip().lower() == "true" if name in given else default


def check_known(given: Mapping[str, str], known: Iterable[str], option: str) -> None:
    """UsageError at a property that the tool does not have."""
    for name in given:
        if name not in known:
            raise usage(f"{option} does not know {name!r}; there is {', '.join(known)}.")
