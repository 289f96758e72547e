"""A Delta table that has one row for each key: the newest that the changes made of it.

Each batch is merged in one commit, which also holds the offset behind its last change in each partition, as in
`delta_table`. Changes below that offset are left out of later batches, so that an older one that is repeated brings no
deleted or older row back.
"""

from collections.abc import Sequence
from typing import Any

from tidelog.spark.pipelines.delta_table import ATTEMPTS, DeltaTableOfRows, ends_of, versions_of
from tidelog.spark.pipelines.object_store import ENVIRONMENT, StoreAccess

DELETED = "_deleted"
PARTITION, OFFSET = "_partition", "_offset"


class DeltaTableByKey(DeltaTableOfRows):
    """`key` are the names of the columns that identify a row. Rows to add have these and the table's other columns, and
    DELETED."""

    def __init__(self, place: str, key: Sequence[str] = (), store: StoreAccess = ENVIRONMENT) -> None:
        super().__init__(place, store)
        self.key = list(key)

    def add(self, frame: Any, batch: int, query: str) -> None:
        """Merge the newest change of each key into the table."""
        from deltalake.exceptions import CommitFailedError

        for left in reversed(range(ATTEMPTS)):
            table = self.opened()
            known = ends_of(table)
            changes = newest(frame, self.key, known).toArrow()
            ends: dict[int, int] = {}
            places = zip(changes[PARTITION].to_pylist(), changes[OFFSET].to_pylist(), strict=True)
            for partition, offset in places:
                ends[partition] = max(offset + 1, ends.get(partition, 0))
            versions = versions_of(query, batch, known, ends)
            try:
                if not changes.num_rows or not self._merge(table, changes, versions):
                    self.commit(table, [], versions)
            except CommitFailedError:
                if not left:
                    raise
            else:
                return

    def _merge(self, table: Any, changes: Any, versions: dict[str, int]) -> bool:
        """Returns whether there was a commit: none is made if all that is deleted was never there."""
        from deltalake import CommitProperties, Transaction

        before = table.version()
        columns = {f"`{name}`": f"change.`{name}`" for name in changes.column_names if name != DELETED}
        same = " and ".join(f"row.`{name}` = change.`{name}`" for name in self.key)
        numbered = CommitProperties(app_transactions=[Transaction(name, number) for name, number in versions.items()])
        merger = table.merge(changes, same, source_alias="change", target_alias="row", commit_properties=numbered)
        merger.when_matched_delete(f"change.{DELETED}").when_matched_update(columns).when_not_matched_insert(
            columns, f"not change.{DELETED}"
        ).execute()
        return bool(table.version() != before)


def newest(frame: Any, key: Sequence[str], known: dict[int, int]) -> Any:
    """The last change of each key, without those below the offset of their partition in `known`. The changes of a key
    are in one partition, in the order of their offsets, whatever their timestamps are; of several partitions, as after
    some were added, the newest by time counts."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    for partition, end in known.items():
        frame = frame.where((f.col(PARTITION) != partition) | (f.col(OFFSET) >= end))
    number = f.row_number()
    in_partition = Window.partitionBy(*key, PARTITION).orderBy(f.desc(OFFSET))
    overall = Window.partitionBy(*key).orderBy(f.desc("_timestamp"), f.desc(OFFSET))
    for latest in (in_partition, overall):
        frame = frame.withColumn("_age", number.over(latest)).where("_age = 1").drop("_age")
    return frame
