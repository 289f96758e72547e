"""A Delta Lake table by delta-rs (delta-spark needs a PySpark before 4.3 and a jar).

Executors write files (`parquet_files`). A batch becomes part of the table by one commit of the driver, which also holds
the offset behind the batch's last row in each partition, as versions of Delta's application transactions. Rows below
that offset are left out of later batches, whichever query brings them: a batch that is repeated after a crash, one of a
checkpoint's older copy, or one of another query that was started by mistake. Delta rejects a commit if another one
changed the same offsets meanwhile.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.spark.pipelines import parquet_files
from tidelog.spark.pipelines.checkpoints import Progress
from tidelog.spark.pipelines.object_store import ENVIRONMENT, StoreAccess
from tidelog.spark.pipelines.parquet_files import Written
from tidelog.spark.pipelines.plan import WrongOption
from tidelog.spark.pipelines.tables import Record

PROPERTY = "tidelog.record"
COUNT = "tidelog.partitions"
"""The application transaction whose version is the number of partitions that may have rows. All commits have it, so two
at the same time are a conflict."""
ATTEMPTS = 10
"""How often a batch is written because others commit at the same time."""


class TableLost(Exception):
    """The table is another one than when the query started."""


class DeltaTableOfRows:
    def __init__(self, place: str, store: StoreAccess = ENVIRONMENT) -> None:
        self.place = place
        self._store = store
        self._id = ""
        self._columns: list[str] = []

    def record(self) -> Record | None:
        if not self._exists():
            return None
        table = self.opened()
        text = table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise WrongOption(f"{self.place} is a Delta table that is not of this pipeline: give another path")
        self._id, self._columns = str(table.metadata().id), table.metadata().partition_columns
        return Record.from_json(text)

    def create(self, record: Record, schema: Any, columns: Sequence[str], query: str) -> None:  # noqa: ARG002
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
        from pyspark.sql.pandas.types import to_arrow_schema

        properties = {PROPERTY: record.to_json()}
        try:
            DeltaTable.create(
                self.place,
                to_arrow_schema(schema, timezone="UTC"),
                mode="error",
                partition_by=list(columns),
                configuration=properties,
                raise_if_key_not_exists=False,
                storage_options=self._store.for_delta(),
            )
        except DeltaError:
            if self.record() != record:
                raise
        self.record()

    def evolve(self, record: Record, schema: Any) -> None:
        """Add the columns that the table lacks, and keep the record. It can be repeated after a crash in between."""
        from deltalake import Schema
        from pyspark.sql.pandas.types import to_arrow_schema

        if self.record() == record:
            return
        table = self.opened()
        there = {field.name for field in table.schema().fields}
        wanted = Schema.from_arrow(to_arrow_schema(schema, timezone="UTC")).fields
        if missing := [field for field in wanted if field.name not in there]:
            table.alter.add_columns(missing)
        table.alter.set_table_properties({PROPERTY: record.to_json()}, raise_if_not_exists=False)

    def agrees(self, found: Progress) -> bool:
        """A query with an older checkpoint than the table is no problem: its offsets are compared."""
        table = self.opened() if self._exists() else None
        if table is None or table.version() == 0:
            return found.committed < 0
        last = table.transaction_version(found.query) if found.query else None
        return last is not None and last >= found.committed

    def ends(self) -> dict[int, int]:
        """WrongOption if they are gone, as after `delta.setTransactionRetentionDuration`."""
        table = self.opened()
        known = ends_of(table)
        if not known and table.file_uris():
            raise WrongOption(f"{self.place} has rows, and no offsets of them in its log any more: give another path")
        return known

    def hand_over(self, query: str) -> int:
        self.commit(self.opened(), [], {query: 0})
        return 0

    def add(self, frame: Any, batch: int, query: str) -> None:
        """Add the rows that are not in the table yet."""
        from deltalake.exceptions import CommitFailedError

        for left in reversed(range(ATTEMPTS)):
            table = self.opened()
            if str(table.metadata().id) != self._id:
                raise TableLost(f"{self.place} was removed and created again while it was written")
            known = ends_of(table)
            written = parquet_files.write(frame, self.place, self._columns, batch, known, self._store)
            try:
                self.commit(table, written.files, versions_of(query, batch, known, written.ends))
            except CommitFailedError:
                parquet_files.remove(self.place, written.files, self._store)
                if not left:
                    raise
            else:
                return

    def compact(self, target: int) -> int:
        """Merge small files, up to that many bytes each; returns how many files were removed. Readers never see an
        intermediate state."""
        found = self.opened().optimize.compact(target_size=target)
        return int(found["numFilesRemoved"]) - int(found["numFilesAdded"])

    def opened(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.place, storage_options=self._store.for_delta())

    def _exists(self) -> bool:
        from deltalake import DeltaTable

        return bool(DeltaTable.is_deltatable(self.place, self._store.for_delta()))

    def commit(self, table: Any, files: Sequence[Written], versions: dict[str, int]) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        actions: list[Any] = [
            AddAction(file.path, file.size, file.values, file.modified, True, parquet_files.stats(file))
            for file in files
        ]
        numbered = CommitProperties(app_transactions=[Transaction(name, number) for name, number in versions.items()])
        table.create_write_transaction(
            actions, "append", table.schema(), partition_by=self._columns, commit_properties=numbered
        )


def ends_of(table: Any) -> dict[int, int]:
    """The offset behind the last row of each partition that has rows."""
    known = {
        number: table.transaction_version(_offset_of(number)) for number in range(table.transaction_version(COUNT) or 0)
    }
    return {number: end for number, end in known.items() if end is not None}


def versions_of(query: str, batch: int, known: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, int]:
    """The application transactions of a query's batch whose rows end at these offsets; `known` are those so far."""
    offsets = {_offset_of(number): end for number, end in ends.items()}
    return {query: batch, COUNT: max({**known, **ends}, default=-1) + 1, **offsets}


def _offset_of(partition: int) -> str:
    """The application transaction whose version is the offset behind a partition's last row."""
    return f"tidelog.partition-{partition}"
