"""A story for a notebook: it draws itself.

from tidelog.lab import story
story("loss-by-high-watermark", truncation="kip_320")
"""

import html
from dataclasses import dataclass

from tidelog.lab.engine import tell_by_name
from tidelog.lab.page import render
from tidelog.lab.playback import Playback

HEIGHT_PIXELS = 720


@dataclass(frozen=True)
class Shown:
    """One telling, or several side by side."""

    playbacks: tuple[Playback, ...]

    @property
    def telling(self) -> Playback:
        return self.playbacks[0]

    def __repr__(self) -> str:
        return "\n".join(
            f"{telling.name} ({', '.join(f'{knob}={value}' for knob, value in telling.knobs.items())}): "
            f"{' '.join(telling.verdict.sentences)}"
            for telling in self.playbacks
        )

    def __or__(self, other: "Shown") -> "Shown":
        """Show two playbacks of a story beside each other: `story(…) | story(…)`."""
        return Shown(self.playbacks + other.playbacks)

    def _repr_html_(self) -> str:
        page = html.escape(render(self.playbacks), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{HEIGHT_PIXELS}px;border:0"></iframe>'


def story(name: str, **knobs: object) -> Shown:
    """Tell a story of the lab.

    Knobs are written with `_` for `.` (`min_insync_replicas=2`); ValueError if the story, the knob or its value is
    unknown.
    """
    given = {_knob(knob): str(value).lower() for knob, value in knobs.items()}
    return Shown((tell_by_name(name, given),))


def _knob(name: str) -> str:
    return name.replace("_", ".") if name.startswith("min_") else name
