"""The lab: stories of replication, told with real brokers and real logs, one step at a time.

A story is a text (`language`), carried out on a `stage` of real nodes in the simulated world (`engine`,
`commands`), and becomes a `playback`: plain data that the terminal, the page and the notebook draw. Every log and every
verdict is read from bytes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.lab.notebook import Shown

__all__ = ["story"]


def story(name: str, **knobs: object) -> "Shown":
    """`tidelog.lab.notebook.story`, imported when it is called."""
    from tidelog.lab import notebook

    return notebook.story(name, **knobs)
