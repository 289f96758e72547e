"""The options of a read, named as those of Spark's own Kafka connector."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.positions import EARLIEST, LATEST

Given = str | dict[str, dict[int, int]]
"""`earliest`, `latest`, or offsets by topic and partition, in which -2 and -1 mean the same two."""

BOOTSTRAP = "kafka.bootstrap.servers"
KNOWN = (
    BOOTSTRAP,
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "includeHeaders",
    "failOnDataLoss",
)
NAMED_OFFSETS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class ReadOptions:
    """Checked options. `limit` is the number of offsets a micro-batch may cover, None for all there are."""

    bootstrap: str
    topics: tuple[str, ...]
    starting: Given | None
    ending: Given
    limit: int | None
    headers: bool
    fail_on_data_loss: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ReadOptions":
        """ValueError names the option that is missing, unknown or wrong."""
        options = {name.lower(): value for name, value in given.items()}
        unknown = set(options).difference(name.lower() for name in KNOWN)
        if unknown:
            raise ValueError(f"unknown option {min(unknown)!r}; there are {', '.join(KNOWN)}")
        limit = options.get("maxoffsetspertrigger")
        starting = options.get("startingoffsets")
        return cls(
            bootstrap=_needed(options, BOOTSTRAP),
            topics=tuple(topic.strip() for topic in _needed(options, "subscribe").split(",") if topic.strip()),
            starting=None if starting is None else _offsets("startingOffsets", starting),
            ending=_ends("endingOffsets", options.get("endingoffsets", "latest")),
            limit=None if limit is None else _positive("maxOffsetsPerTrigger", limit),
            headers=_boolean("includeHeaders", options.get("includeheaders", "false")),
            fail_on_data_loss=_boolean("failOnDataLoss", options.get("failondataloss", "true")),
        )


def _needed(options: Mapping[str, str], name: str) -> str:
    value = options.get(name.lower(), "").strip()
    if not value:
        raise ValueError(f"option {name!r} is needed")
    return value


def _positive(name: str, text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        raise ValueError(f"option {name!r} is a whole number above 0, not {text!r}")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"option {name!r} is true or false, not {text!r}")
    return text.strip().lower() == "true"


def _offsets(name: str, text: str) -> Given:
    if text.strip().lower() in NAMED_OFFSETS:
        return text.strip().lower()
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in json.loads(text).items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ValueError(
            f'option {name!r} is earliest, latest or JSON like {{"topic":{{"0":23,"1":-2}}}}, not {text!r}'
        ) from None


def _ends(name: str, text: str) -> Given:
    """As `_offsets`, but nothing can end where it begins."""
    given = _offsets(name, text)
    named = [given] if isinstance(given, str) else [offset for places in given.values() for offset in places.values()]
    if "earliest" in named or EARLIEST in named:
        raise ValueError(f"option {name!r} is latest or JSON without -2 (earliest), not {text!r}")
    return given
