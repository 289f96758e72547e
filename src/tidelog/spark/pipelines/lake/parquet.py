"""A folder of Parquet files as a table. A batch's files wait in `_staging` until all are written, then move in; the
batch's entry in `_log` comes last. After a crash between the two the batch's files are taken out and written again.

Readers leave names with `_` out. One that looks while a batch moves in sees a part of it, and one that looks while
small files are put together may see rows twice, for a moment; Delta has no such moments.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tidelog.spark.pipelines.lake.files import write

STAGING, LOG = "_staging", "_log"
JOURNAL = "compaction.json"
FEWEST = 2
"""Fewer small files than this in a folder are left alone."""


class ParquetLake:
    """Only one writer at a time; a second one needs a folder of its own."""

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
        """Put small files of each folder together, up to so many bytes; how many are gone."""
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
        """What the journal says is done, also after a crash in the middle of it."""
        journal = self._log / JOURNAL
        if not journal.exists():
            return
        told = json.loads(journal.read_text(encoding="utf-8"))
        staged = self._folder / told["staged"]
        if staged.exists():
            staged.rename(self._folder / told["to"])
        for name in told["from"]:
            (self._folder / name).unlink(missing_ok=True)
        journal.unlink()

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    def _clear(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)


def last_batch(folder: Path) -> int | None:
    """The last batch that is in the table, None where there is none."""
    return max((int(entry.stem) for entry in (folder / LOG).glob("[0-9]*.json")), default=None)


def _groups(files: Sequence[Path], target: int) -> Iterator[list[Path]]:
    """Neighbours that together stay within the target."""
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
    """All of it or nothing, whatever crashes."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)
