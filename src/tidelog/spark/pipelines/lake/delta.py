"""A Delta Lake table by delta-rs: a batch is one commit, which holds the batch's number beside its files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidelog.spark.pipelines.lake.files import stats, write


def last_batch(folder: Path, app: str) -> int | None:
    """The last batch that this query committed to the table, None where there is none."""
    from deltalake import DeltaTable

    return DeltaTable(folder).transaction_version(app) if DeltaTable.is_deltatable(str(folder)) else None


class DeltaLake:
    """`app` names the query: a batch that this query has committed before is not committed again, which Delta's log
    itself decides by the number in it."""

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
        """Put small files together, up to so many bytes each; how many are gone. Readers see no moment between."""
        from deltalake import DeltaTable

        found = DeltaTable(self._folder).optimize.compact(target_size=target)
        return int(found["numFilesRemoved"]) - int(found["numFilesAdded"])
