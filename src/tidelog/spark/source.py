"""The format `tidelog`: what PySpark finds by that name. Readers and writers are imported when a query needs them,
because every PySpark process imports this module."""

import sys
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""Spark's module that plans a read with filters; a process that plans without filters has not loaded it."""


class DefaultSource(DataSource):
    """What `format("tidelog")` creates. PySpark calls it on the driver; readers and writers are sent to executors."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> Any:
        from tidelog.spark import catalog

        if catalog.is_table(self.options):
            given = catalog.options_of(self.options)
            return catalog.with_options(_columns(given), given)
        return _ddl(_columns(self.options))

    def reader(self, schema: Any) -> DataSourceReader:
        from tidelog.spark.reading.batch import BatchReader, FilteringReader
        from tidelog.spark.reading.read_options import ReadOptions

        options = ReadOptions.of(self._given(schema), streaming=False)
        return FilteringReader(options) if PUSHING in sys.modules else BatchReader(options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        from tidelog.spark.reading.read_options import ReadOptions
        from tidelog.spark.reading.stream import StreamReader

        options = ReadOptions.of(self._given(schema), streaming=True)
        return StreamReader(options)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        from tidelog.spark.writing.writers import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802  Spark's
        from tidelog.spark.writing.writers import stream_writer

        return stream_writer(self.options, schema)

    def _given(self, schema: Any) -> Any:
        """The options of the read, with those of the catalog's table. A user-defined schema is not supported."""
        from tidelog.spark import catalog
        from tidelog.spark.options import BadOption

        given = {**catalog.kept_options(schema), **self.options}
        wanted = _ddl(_columns(given))
        if schema.simpleString() != "struct<" + wanted.replace(", ", ",").replace(" ", ":") + ">":
            raise BadOption(
                f"the schema of this source is fixed ({wanted}) and cannot be set with .schema(…); option 'columns' "
                "says which columns to read"
            )
        return given


def _columns(options: Any) -> dict[str, str]:
    """The chosen columns' types."""
    from tidelog.spark.reading.read_options import COLUMNS, ReadOptions

    return {name: COLUMNS[name] for name in ReadOptions.of(options).columns}


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
