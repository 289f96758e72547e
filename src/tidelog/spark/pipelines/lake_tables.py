"""The two kinds of table of the lake: each batch is added once, and small files are merged.

A table belongs to one query, by a name that is stored in the query's checkpoint and in the table. A table knows its
batches by their numbers, which begin at 0 in every checkpoint. So another query's first batches would be taken for old
ones and their rows would be missing, as would those of a query whose checkpoint is older than what it wrote, since it
may cut its batches differently this time. Both are refused before they begin.

`ParquetLake`: a batch's files wait in `_staging` until all are written, then are moved in; the batch's entry in `_log`
is written last. After a crash between the two, the batch's files are removed and written again. Readers skip names that
start with `_`. A reader that lists files while a batch moves in sees a part of it, and one that lists while small files
are merged may see rows twice for a moment; Delta has no such moments.

`DeltaLake`: a Delta Lake table by delta-rs (delta-spark needs a PySpark before 4.3 and a jar). A batch is one commit,
which holds the batch's number beside its files.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from tidelog.spark.pipelines.parquet_files import stats, write
from tidelog.spark.pipelines.plan import WrongOption

IN_CHECKPOINT, IN_TABLE = "query", "_query"


def claim_table(table: Path, checkpoint: Path, stage: str, last_batch: Callable[[str], int | None]) -> str:
    """Returns the query's name and makes the table this query's. WrongOption if another query wrote it. `last_batch`
    returns the last batch number that the table has of a query, None if it has none."""
    begun = _last_begun_batch(checkpoint / stage)
    earlier = str(uuid5(NAMESPACE_URL, str(checkpoint.absolute())))  # the name of queries whose checkpoint has none
    own = _read_name(checkpoint / IN_CHECKPOINT) or (str(uuid4()) if begun is None else earlier)
    owner = _read_name(table / IN_TABLE) or earlier
    remedy = f"give another path, or remove {table} and {checkpoint} to write it anew"
    if owner != own and last_batch(owner) is not None:
        raise WrongOption(f"option 'path': another query than that of checkpoint {checkpoint} wrote {table}: {remedy}")
    last = last_batch(own)
    if last is not None and (begun is None or last > begun):
        raise WrongOption(f"option 'path': {table} is newer than checkpoint {checkpoint}, which wrote it: {remedy}")
    _write_name(checkpoint / IN_CHECKPOINT, own)
    _write_name(table / IN_TABLE, own)
    return own


def _last_begun_batch(stage: Path) -> int | None:
    """The last batch in the checkpoint: Spark records it before anything is written."""
    return max((int(file.name) for file in stage.glob("offsets/[0-9]*") if file.name.isdigit()), default=None)


def _read_name(file: Path) -> str:
    return file.read_text(encoding="ascii").strip() if file.exists() else ""


def _write_name(file: Path, name: str) -> None:
    if _read_name(file) == name:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    part.write_text(f"{name}\n", encoding="ascii")
    part.rename(file)


STAGING, LOG = "_staging", "_log"
JOURNAL = "compaction.json"
FEWEST = 2
"""Fewer small files than this in a folder are not merged."""


class ParquetLake:
    """Only one writer at a time; a second one needs its own folder."""

    def __init__(self, folder: Path, columns: Sequence[str]) -> None:
        self._folder = folder
        self._columns = list(columns)
        self._staging = folder / STAGING
        self._log = folder / LOG
        self._log.mkdir(parents=True, exist_ok=True)
        self._finish_compaction()

    def add(self, frame: Any, batch: int) -> None:
        entry = self._log / f"{batch:012d}.json"
        if entry.exists():
            return
        self._clear()
        for left in self._folder.rglob(f"part-{batch:012d}-*.parquet"):
            left.unlink()
        files = write(frame, self._staging, self._columns, batch)
        for file in files:
            place = self._folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            (self._staging / file.path).rename(place)
        _write_whole(entry, json.dumps({"files": [file.path for file in files], "rows": sum(f.rows for f in files)}))
        self._clear()

    def compact(self, target: int) -> int:
        """Merge small files of each folder, up to that many bytes; returns how many files were removed."""
        self._clear()
        return sum(self._merge(number, files) for number, files in enumerate(self._small(target)))

    def _small(self, target: int) -> Iterator[list[Path]]:
        folders: dict[Path, list[Path]] = {}
        for file in sorted(self._folder.rglob("*.parquet")):
            if STAGING not in file.parts and file.stat().st_size < target // 2:
                folders.setdefault(file.parent, []).append(file)
        for files in folders.values():
            for group in _groups(files, target):
                if len(group) >= FEWEST:
                    yield group

    def _merge(self, number: int, files: Sequence[Path]) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq

        last = max(self._log.glob("[0-9]*.json"), default=Path("none")).stem
        place = files[0].parent / f"compact-{last}-{number}-{len(files)}.parquet"
        if place in files:
            return 0
        staged = self._staging / place.relative_to(self._folder)
        staged.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables([pq.ParquetFile(file).read() for file in files]), staged)
        journal = {"from": [self._name(file) for file in files], "staged": self._name(staged), "to": self._name(place)}
        _write_whole(self._log / JOURNAL, json.dumps(journal))
        self._finish_compaction()
        return len(files) - 1

    def _finish_compaction(self) -> None:
        """Do what the journal says; also after a crash in the middle of it."""
        journal = self._log / JOURNAL
        if not journal.exists():
            return
        move = json.loads(journal.read_text(encoding="utf-8"))
        staged = self._folder / move["staged"]
        if staged.exists():
            staged.rename(self._folder / move["to"])
        for name in move["from"]:
            (self._folder / name).unlink(missing_ok=True)
        journal.unlink()

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    def _clear(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)


def last_parquet_batch(folder: Path) -> int | None:
    """The last batch in the table, None if there is none."""
    return max((int(entry.stem) for entry in (folder / LOG).glob("[0-9]*.json")), default=None)


def _groups(files: Sequence[Path], target: int) -> Iterator[list[Path]]:
    """Consecutive files that together stay within the target."""
    group: list[Path] = []
    size = 0
    for file in files:
        more = file.stat().st_size
        if group and size + more > target:
            yield group
            group, size = [], 0
        group.append(file)
        size += more
    if group:
        yield group


def _write_whole(path: Path, text: str) -> None:
    """Write all of it or nothing, even in a crash."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)


def last_delta_batch(folder: Path, app: str) -> int | None:
    """The last batch that this query committed to the table, None if there is none."""
    from deltalake import DeltaTable

    return DeltaTable(folder).transaction_version(app) if DeltaTable.is_deltatable(str(folder)) else None


class DeltaLake:
    """`app` names the query: a batch that this query committed before is not committed again, which Delta's log ensures
    by the batch number in it."""

    def __init__(self, folder: Path, schema: Any, columns: Sequence[str], app: str) -> None:
        self._folder = folder
        self._schema = schema
        self._columns = list(columns)
        self._app = app

    def add(self, frame: Any, batch: int) -> None:
        """Files of an attempt that crashed before its commit are in no version; `vacuum` removes them."""
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import AddAction

        DeltaTable.create(self._folder, self._schema, mode="ignore", partition_by=self._columns)
        table = DeltaTable(self._folder)
        done = table.transaction_version(self._app)
        if done is not None and done >= batch:
            return
        files = write(frame, self._folder, self._columns, batch)
        actions: list[Any] = [
            AddAction(file.path, file.size, file.values, file.modified, True, stats(file)) for file in files
        ]
        numbered = CommitProperties(app_transactions=[Transaction(self._app, batch)])
        table.create_write_transaction(
            actions, "append", table.schema(), partition_by=self._columns, commit_properties=numbered
        )

    def compact(self, target: int) -> int:
        """Merge small files, up to that many bytes each; returns how many files were removed. Readers never see an
        intermediate state."""
        from deltalake import DeltaTable

        found = DeltaTable(self._folder).optimize.compact(target_size=target)
        return int(found["numFilesRemoved"]) - int(found["numFilesAdded"])
