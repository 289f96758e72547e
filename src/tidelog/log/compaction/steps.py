"""What a pass yields between two pieces of work, and what it then waits for."""

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from tidelog.ports import File

Result = TypeVar("Result")


class Worked(NamedTuple):
    """The number of bytes read and written since the last step; resume at any time."""

    bytes: int = 0


class Flush(NamedTuple):
    """Resume when these files are durable."""

    files: Sequence[File]


class Unneeded(NamedTuple):
    """These files may be removed."""

    paths: Sequence[str]


Step = Worked | Flush | Unneeded

Steps = Generator[Step, None, Result]
