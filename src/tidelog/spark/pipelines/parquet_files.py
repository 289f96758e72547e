"""What an executor does for the lake: write the rows of one task to Parquet files, in folders by the partition
columns."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

NULL = "__HIVE_DEFAULT_PARTITION__"
WRITTEN = "path string, size bigint, rows bigint, modified bigint"


class File(NamedTuple):
    """A written file that is not in a table yet; `path` is relative to the folder written to, `modified` is in
    milliseconds."""

    path: str
    size: int
    rows: int
    modified: int

    @property
    def values(self) -> dict[str, str | None]:
        """The partition columns' values, from the names of its folders."""
        pairs = (part.partition("=") for part in self.path.split("/")[:-1])
        return {name: None if value == NULL else unquote(value) for name, _, value in pairs}


def write(frame: Any, folder: Path, columns: Sequence[str], batch: int) -> list[File]:
    """Write a batch's rows with all executors. File names are unique to this attempt, so nothing is overwritten."""
    place, names = str(folder), list(columns)

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        yield from _write(batches, place, names, batch)

    return [File(*row) for row in frame.mapInArrow(task, WRITTEN).collect()]


def _write(batches: Iterator[Any], folder: str, columns: list[str], batch: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark import TaskContext

    first = next(batches, None)
    if first is None:
        return
    written: list[Any] = []
    context = TaskContext.get()
    attempt = f"{context.partitionId()}-{context.taskAttemptId()}" if context else "0"
    kinds = pa.schema([first.schema.field(name) for name in columns])

    def rows() -> Iterator[Any]:
        yield first
        yield from batches

    ds.write_dataset(
        rows(),
        folder,
        schema=first.schema,
        format="parquet",
        partitioning=ds.partitioning(kinds, flavor="hive") if columns else None,
        basename_template=f"part-{batch:012d}-{attempt}-{{i}}.parquet",
        existing_data_behavior="overwrite_or_ignore",
        file_visitor=written.append,
        max_partitions=100_000,
        use_threads=False,
    )
    yield pa.RecordBatch.from_pylist([_written_file(each, Path(folder)) for each in written], _schema())


def _written_file(written: Any, folder: Path) -> dict[str, Any]:
    path = Path(written.path)
    place = path.stat()
    name = str(path.relative_to(folder))
    return {
        "path": name, "size": place.st_size, "rows": written.metadata.num_rows, "modified": int(place.st_mtime * 1000),
    }  # fmt: skip


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("path", pa.string()), ("size", pa.int64()), ("rows", pa.int64()), ("modified", pa.int64())])


def stats(file: File) -> str:
    """The statistics of a file in Delta's log."""
    return json.dumps({"numRecords": file.rows})
