"""An Iceberg table by pyiceberg, in a catalog in SQLite beside it, or in another SQL catalog.

Executors write files (`parquet_files`). A batch becomes part of the table by one snapshot, whose summary also has the
offset behind the last row of each partition. Rows below that offset are left out of later batches, whichever query
brings them. A commit is rejected if another one came between, and the batch is then written again without what is
there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.spark.pipelines import parquet_files
from tidelog.spark.pipelines.checkpoints import Progress
from tidelog.spark.pipelines.folders import is_uri
from tidelog.spark.pipelines.object_store import ENVIRONMENT, StoreAccess
from tidelog.spark.pipelines.plan import WrongOption
from tidelog.spark.pipelines.tables import Record

CATALOG, CATALOG_NAME = "catalog.sqlite", "tidelog"
NAME = ("tidelog", "rows")
PROPERTY = "tidelog.record"
STATE = "tidelog.state"
"""The property of a snapshot with the offsets, and the last batch of each query."""
RETRIES = "commit.retry.num-retries"
"""pyiceberg's own retry would add a batch behind another that may have the same rows."""
MAX_QUERIES = 20
"""So many of the last queries are known to a table."""
ATTEMPTS = 10


class State(NamedTuple):
    """`ends` is the offset behind the last row by partition, `queries` the last batch by query."""

    ends: Mapping[int, int]
    queries: Mapping[str, int]

    def with_batch(self, query: str, batch: int, ends: Mapping[int, int]) -> "State":
        others = [(name, number) for name, number in self.queries.items() if name != query]
        return State({**self.ends, **ends}, dict([*others, (query, batch)][-MAX_QUERIES:]))

    def to_json(self) -> str:
        return json.dumps({"ends": self.ends, "queries": self.queries})

    @classmethod
    def from_json(cls, text: str) -> "State":
        found = json.loads(text)
        return cls({int(number): end for number, end in found["ends"].items()}, found["queries"])


class IcebergTableOfRows:
    """`place` is a folder, in which the catalog is a file, and the table is `tidelog.rows`. With a `catalog`, a URL of
    SQLAlchemy, it may be a URI, and the table has the name of its last folder."""

    def __init__(self, place: str, catalog: str = "", store: StoreAccess = ENVIRONMENT) -> None:
        self.place = place
        self._is_own = not catalog
        self._catalog_url = catalog or f"sqlite:///{place}/{CATALOG}"
        self._store = store
        self._name = (NAME[0], NAME[1] if self._is_own else place.rstrip("/").rpartition("/")[2])
        self._columns: list[str] = []
        self._id = ""

    def record(self) -> Record | None:
        table = self._opened()
        if table is None:
            return None
        if not self._is_own and table.location() != self._location:
            raise WrongOption(
                f"the catalog has a table {'.'.join(self._name)} at {table.location()}: give another path"
            )
        text = table.properties.get(PROPERTY)
        if text is None or table.properties.get(RETRIES) != "0":
            raise WrongOption(f"{self.place} is an Iceberg table that is not of this pipeline: give another path")
        self._id, self._columns = str(table.metadata.table_uuid), [each.name for each in table.spec().fields]
        return Record.from_json(text)

    def create(self, record: Record, schema: Any, columns: Sequence[str], query: str) -> None:  # noqa: ARG002
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
        from pyspark.sql.pandas.types import to_arrow_schema

        if self._is_own:
            Path(self.place).mkdir(parents=True, exist_ok=True)
        properties = {PROPERTY: record.to_json(), RETRIES: "0"}
        with self._catalog() as catalog, suppress(TableAlreadyExistsError, CommitFailedException):
            catalog.create_namespace_if_not_exists(self._name[0])
            arrow = to_arrow_schema(schema, timezone="UTC")
            new = catalog.create_table_transaction(self._name, arrow, location=self._location, properties=properties)
            with new.update_spec() as spec:
                for name in columns:
                    spec.add_identity(name)
            new.commit_transaction()
        if self.record() != record:
            raise WrongOption(f"another pipeline made a table at {self.place}: give another path")

    def agrees(self, found: Progress) -> bool:
        """A query with an older checkpoint than the table is no problem: its offsets are compared."""
        table = self._opened() if self.record() is not None else None
        if table is None or table.current_snapshot() is None:
            return found.committed < 0
        last = _state(table).queries.get(found.query or "")
        return last is not None and last >= found.committed

    def ends(self) -> dict[int, int]:
        table = self._existing()
        known = _state(table).ends
        if not known and table.current_snapshot() is not None and table.scan().count():
            raise WrongOption(f"{self.place} has rows, and no snapshot with their offsets any more: give another path")
        return dict(known)

    def hand_over(self, query: str) -> int:
        table = self._existing()
        self._commit(table, [], _state(table).with_batch(query, 0, {}))
        return 0

    def add(self, frame: Any, batch: int, query: str) -> None:
        """Add the rows that are not in the table yet."""
        from pyiceberg.exceptions import CommitFailedException

        for left in reversed(range(ATTEMPTS)):
            table = self._existing()
            known = _state(table)
            written = parquet_files.write(
                frame, f"{self.place}/data", self._columns, batch, known.ends, self._store, keeps_columns=True
            )
            try:
                self._commit(
                    table,
                    [f"{self._location}/data/{file.path}" for file in written.files],
                    known.with_batch(query, batch, written.ends),
                )
            except CommitFailedException:
                parquet_files.remove(f"{self.place}/data", written.files, self._store)
                if not left:
                    raise
            else:
                return

    def compact(self, target: int) -> int:  # noqa: ARG002  as Delta's
        """pyiceberg cannot merge files; other engines can."""
        return 0

    @property
    def _location(self) -> str:
        return self.place if is_uri(self.place) else f"file://{self.place}"

    def _opened(self) -> Any:
        """None if the catalog has no table."""
        from pyiceberg.exceptions import NoSuchTableError

        if self._is_own and not (Path(self.place) / CATALOG).exists():
            return None
        with self._catalog() as catalog:
            try:
                return catalog.load_table(self._name)
            except NoSuchTableError:
                return None

    def _existing(self) -> Any:
        table = self._opened()
        if table is None or str(table.metadata.table_uuid) != self._id:
            raise TableLost(f"{self.place} was removed and created again while it was written")
        return table

    @contextmanager
    def _catalog(self) -> Iterator[Any]:
        """Its connections are closed afterwards."""
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog(CATALOG_NAME, uri=self._catalog_url, warehouse=self._location, **self._store.for_iceberg())
        try:
            yield catalog
        finally:
            catalog.close()

    def _commit(self, table: Any, files: Sequence[str], state: State) -> None:
        """CommitFailedException if the table has another snapshot by now."""
        with table.transaction() as transaction:
            transaction.add_files(
                list(files), snapshot_properties={STATE: state.to_json()}, check_duplicate_files=False
            )


class TableLost(Exception):
    """The table is another one than when the query started."""


def _state(table: Any) -> State:
    """That of the newest snapshot which has one: other engines add snapshots, too."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        text = snapshot.summary.additional_properties.get(STATE) if snapshot.summary is not None else None
        if text is not None:
            return State.from_json(text)
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    return State({}, {})
