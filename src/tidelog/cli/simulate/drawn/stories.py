"""All stories of the lab with all their knobs, and the regression stories of a checkout, as one list."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.lab.playback import Playback

Tell = Callable[[], "Playback"]


def playbacks(scenarios: str | None) -> Iterator[tuple[str, Tell]]:
    """(name, the call that plays it); `scenarios` is a folder of stories: commands and the output they must have."""
    from tidelog.lab.engine import tell
    from tidelog.lab.library import find, names

    for name in names():
        knobs = find(name).knobs.values()
        for values in itertools.product(*(knob.values for knob in knobs)):
            given = dict(zip((knob.name for knob in knobs), values, strict=True))
            yield " ".join((name, *values)), partial(tell, find(name), given)
    for path in sorted(Path(scenarios).glob("*.txt")) if scenarios else ():
        yield path.name, partial(_as_it_stands, path)


def end_of(tell: Tell) -> list[object]:
    """What is judged of a telling; a story that cannot be told has an end, too."""
    try:
        verdict = tell().verdict
    except Exception as error:  # noqa: BLE001  (whatever broke is what was looked for)
        return [repr(error)]
    return [verdict.ok, [record.label for record in verdict.lost], verdict.differs, verdict.sentences]


def _as_it_stands(path: Path) -> "Playback":
    from tidelog.lab.commands import VERBS
    from tidelog.lab.engine import tell
    from tidelog.lab.language import Command, read

    def told(command: Command, lines: list[str]) -> None:
        assert (lines or ["ok"]) == command.expected, f"{path.name}:{command.line}: {command.text}"

    return tell(read(path.stem, path.name, path.read_text(encoding="utf-8"), VERBS), told=told)
