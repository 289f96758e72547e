"""What executors do for a Delta table: write the rows of one task to Parquet files, in folders by the partition
columns.

File names are unique to an attempt, so nothing is ever overwritten."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

from tidelog.spark.pipelines.folders import is_uri
from tidelog.spark.pipelines.object_store import ENVIRONMENT, S3, StoreAccess

COPY = "by_"
NULL = "__HIVE_DEFAULT_PARTITION__"
PARTITION, OFFSET = "_partition", "_offset"
TASK_RESULT = "files array<struct<path: string, size: bigint, rows: bigint>>, ends map<int, bigint>"


class Written(NamedTuple):
    """A written file that is not in a table yet; `path` is relative to the table, `modified` is in milliseconds."""

    path: str
    size: int
    rows: int
    modified: int

    @property
    def values(self) -> dict[str, str | None]:
        """The partition columns' values, from the names of its folders."""
        pairs = (part.partition("=") for part in self.path.split("/")[:-1])
        return {name: None if value == NULL else unquote(value) for name, _, value in pairs}


class Batch(NamedTuple):
    """`ends`: the offset behind the last row, by partition of the topic."""

    files: list[Written]
    ends: dict[int, int]


def write(
    frame: Any,
    table: str,
    columns: Sequence[str],
    batch: int,
    known: Mapping[int, int],
    store: StoreAccess = ENVIRONMENT,
    *,
    keeps_columns: bool = False,
) -> Batch:
    """Write a batch's rows with all executors, without those whose offsets are below the partition's in `known`. The
    columns of folders are not in the files, unless `keeps_columns`."""
    names, ends = list(columns), dict(known)
    by = [COPY + name for name in names] if keeps_columns else names

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        yield from _write(_copied(batches, names) if keeps_columns else batches, table, by, batch, ends, store)

    found = Batch([], {})
    now = int(time.time() * 1000)
    for row in frame.mapInArrow(task, TASK_RESULT).collect():
        found.files.extend(Written(file["path"], file["size"], file["rows"], now) for file in row[0])
        for partition, end in row[1].items():
            found.ends[partition] = max(end, found.ends.get(partition, 0))
    return found


def _copied(batches: Iterator[Any], names: Sequence[str]) -> Iterator[Any]:
    """With copies of columns, which become folders."""
    for batch in batches:
        for name in names:
            batch = batch.append_column(COPY + name, batch.column(name))  # noqa: PLW2901
        yield batch


def _write(
    batches: Iterator[Any], table: str, columns: list[str], batch: int, known: Mapping[int, int], store: StoreAccess
) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    ends: dict[int, int] = {}
    rows = (new for each in batches if (new := _unknown(each, known, ends)).num_rows)
    first = next(rows, None)
    if first is None:
        return
    written: list[Any] = []
    files, root = file_system(table, store)
    kinds = pa.schema([first.schema.field(name) for name in columns])
    ds.write_dataset(
        _chained(first, rows),
        root,
        schema=first.schema,
        format="parquet",
        filesystem=files,
        partitioning=ds.partitioning(kinds, flavor="hive") if columns else None,
        basename_template=f"part-{batch:012d}-{uuid4()}-{{i}}.parquet",
        existing_data_behavior="overwrite_or_ignore",  # of the folder; no other file has this name
        file_visitor=written.append,
        max_partitions=100_000,
        use_threads=False,
    )
    listed = [
        {"path": each.path.removeprefix(root).lstrip("/"), "size": each.size, "rows": each.metadata.num_rows}
        for each in written
    ]
    yield pa.RecordBatch.from_pylist([{"files": listed, "ends": list(ends.items())}], _result_schema())


def _chained(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _unknown(batch: Any, known: Mapping[int, int], ends: dict[int, int]) -> Any:
    """The rows that are not in the table yet; adds the offsets behind them to `ends`."""
    import numpy as np
    import pyarrow as pa

    partitions = batch.column(batch.schema.get_field_index(PARTITION)).to_numpy(zero_copy_only=False)
    offsets = batch.column(batch.schema.get_field_index(OFFSET)).to_numpy(zero_copy_only=False)
    new = np.ones(len(offsets), np.bool_)
    for partition in np.unique(partitions).tolist():
        chosen = partitions == partition
        new &= ~chosen | (offsets >= known.get(partition, 0))
        if (chosen & new).any():
            ends[partition] = max(int(offsets[chosen & new].max()) + 1, ends.get(partition, 0))
    return batch if new.all() else batch.filter(pa.array(new))


def file_system(table: str, store: StoreAccess = ENVIRONMENT) -> tuple[Any, str]:
    """The file system of Arrow for a table, and the table's place in it."""
    from pyarrow import fs

    if not is_uri(table):
        return fs.LocalFileSystem(), table
    scheme, _, rest = table.rstrip("/").partition("://")
    if scheme in S3:
        return store.arrow(), rest
    files, root = fs.FileSystem.from_uri(table)
    return files, root.rstrip("/")


def remove(table: str, written: Iterable[Written], store: StoreAccess = ENVIRONMENT) -> None:
    """Files that became part of no table."""
    files, root = file_system(table, store)
    for each in written:
        files.delete_file(f"{root}/{each.path}")


def _result_schema() -> Any:
    import pyarrow as pa

    file = pa.struct([("path", pa.string()), ("size", pa.int64()), ("rows", pa.int64())])
    return pa.schema([("files", pa.list_(file)), ("ends", pa.map_(pa.int32(), pa.int64()))])


def stats(file: Written) -> str:
    """The statistics of a file in Delta's log."""
    return json.dumps({"numRecords": file.rows})
