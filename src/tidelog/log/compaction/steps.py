"""What a pass yields between two pieces of work, and what it then waits for."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog.errors import ApiError
from tidelog.ports import File

Result = TypeVar("Result")


class Worked(NamedTuple):
    """The number of bytes read and written since the last step; resume at any time."""

    bytes: int = 0


class Flush(NamedTuple):
    """Resume when these files are durable."""

    files: Sequence[File]


class Call(NamedTuple):
    """Resume with what the function returns for these arguments, or with the ApiError that it raises. It takes long,
    and depends on nothing else."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Unneeded(NamedTuple):
    """These files may be removed."""

    paths: Sequence[str]


Step = Worked | Flush | Call | Unneeded

Steps = Generator[Step, Any, Result]


def called(function: Callable[..., Any], *arguments: Any) -> Steps[Any]:
    result = yield Call(function, arguments)
    if isinstance(result, ApiError):
        raise result
    return result
