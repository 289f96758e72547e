"""What a pass tells its caller between two pieces of work, and what it then waits for."""

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from tidelog.ports import File

Result = TypeVar("Result")


class Worked(NamedTuple):
    """So many bytes were read and written since the last step; go on whenever it suits."""

    bytes: int = 0


class Flush(NamedTuple):
    """Go on when these files are durable."""

    files: Sequence[File]


class Unneeded(NamedTuple):
    """These files may be removed."""

    paths: Sequence[str]


Step = Worked | Flush | Unneeded

Steps = Generator[Step, None, Result]
