"""Which query a table belongs to: the one that adds to it, by a name that stands in its checkpoint and in the table.

A table knows its batches by their numbers, and these begin at 0 in every checkpoint. So another query's first batches
would be taken for old ones, and their rows be missing; as would those of a query whose checkpoint is older than what it
wrote, for it may cut its batches otherwise this time. Both are refused before they begin.
"""

from collections.abc import Callable
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

from tidelog.spark.pipelines.plan import WrongOption

IN_CHECKPOINT, IN_TABLE = "query", "_query"


def claim(table: Path, checkpoint: Path, stage: str, last_batch: Callable[[str], int | None]) -> str:
    """The query's name, and the table is this query's. WrongOption where another one wrote it. `last_batch` gives the
    last number that the table has of a query, None where it has none."""
    begun = _begun(checkpoint / stage)
    earlier = str(uuid5(NAMESPACE_URL, str(checkpoint.absolute())))  # the name of queries whose checkpoint has none
    own = _read(checkpoint / IN_CHECKPOINT) or (str(uuid4()) if begun is None else earlier)
    owner = _read(table / IN_TABLE) or earlier
    remedy = f"give another path, or remove {table} and {checkpoint} to write it anew"
    if owner != own and last_batch(owner) is not None:
        raise WrongOption(f"option 'path': another query than that of checkpoint {checkpoint} wrote {table}: {remedy}")
    last = last_batch(own)
    if last is not None and (begun is None or last > begun):
        raise WrongOption(f"option 'path': {table} is newer than checkpoint {checkpoint}, which wrote it: {remedy}")
    _write(checkpoint / IN_CHECKPOINT, own)
    _write(table / IN_TABLE, own)
    return own


def _begun(stage: Path) -> int | None:
    """The last batch that the checkpoint knows: Spark writes down what is in it before anything is added."""
    return max((int(file.name) for file in stage.glob("offsets/[0-9]*") if file.name.isdigit()), default=None)


def _read(file: Path) -> str:
    return file.read_text(encoding="ascii").strip() if file.exists() else ""


def _write(file: Path, name: str) -> None:
    if _read(file) == name:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    part.write_text(f"{name}\n", encoding="ascii")
    part.rename(file)
