"""The stories that come with the lab, and a person's own: found by name, read once, told with knobs."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from tidelog.lab.commands import VERBS
from tidelog.lab.engine import tell
from tidelog.lab.language import Story, StoryError, read
from tidelog.lab.playback import Playback

SUFFIX = ".txt"
ORDER = (
    "two-fetches-to-commit",
    "three-records-two-speeds",
    "reading-above-the-high-watermark",
    "loss-by-high-watermark",
    "loss-without-a-restart",
    "divergence-by-high-watermark",
    "fast-failover",
    "zombie-fetch",
    "acks-one",
    "last-replica",
    "slow-follower",
    "unclean-election",
    "delivery-semantics",
    "topic-that-will-not-die",
    "topic-deleted-during-a-move",
    "consumer-offsets-grow",
)
"""As a learner reads them."""


@cache
def names() -> tuple[str, ...]:
    folder = resources.files(__package__).joinpath("stories")
    found = {item.name.removesuffix(SUFFIX) for item in folder.iterdir() if item.name.endswith(SUFFIX)}
    return tuple(sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)))


@cache
def find(name: str) -> Story:
    """A story of the lab; ValueError where there is none of this name."""
    if name not in names():
        raise ValueError(f"There is no story {name}; the stories are: {', '.join(names())}.")
    file = f"{name}{SUFFIX}"
    text = resources.files(__package__).joinpath("stories", file).read_text(encoding="utf-8")
    return read(name, file, text, VERBS)


def open_file(path: Path | str) -> Story:
    """A person's own story. StoryError where it is none, OSError where the file cannot be read."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StoryError(str(path), 1, "expected a text in UTF-8.") from error
    return read(path.stem, str(path), text, VERBS)


def tell_by_name(name: str, knobs: Mapping[str, str]) -> Playback:
    return tell(find(name), knobs)
