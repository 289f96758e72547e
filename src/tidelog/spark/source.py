"""The format `tidelog`: batch and streaming reads of topics (subscribe, startingOffsets, maxOffsetsPerTrigger)."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark.options import ReadOptions


class DefaultSource(DataSource):
    """What `format("tidelog")` makes. PySpark calls it on the driver; readers travel to executors."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> str:
        from tidelog.spark.reading import HEADERS, SCHEMA

        return SCHEMA + HEADERS * ReadOptions.of(self.options).headers

    def reader(self, schema: Any) -> "BatchReader":  # noqa: ARG002  Spark's signature
        return BatchReader(ReadOptions.of(self.options))

    def streamReader(self, schema: Any) -> "StreamReader":  # noqa: ARG002, N802  Spark's signature
        return StreamReader(ReadOptions.of(self.options))


def _ranges(options: ReadOptions, start: dict[Any, int], end: dict[Any, int]) -> list[InputPartition]:
    from tidelog.spark.reading import Range

    return [
        Range(
            options.bootstrap,
            name.topic,
            name.partition,
            start[name],
            offset,
            options.headers,
            options.fail_on_data_loss,
        )
        for name, offset in sorted(end.items())
        if offset > start[name]
    ]


class BatchReader(DataSourceReader):
    """Everything from startingOffsets (earliest where not given) to endingOffsets, once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from tidelog.spark.offsets import Places

        places = Places(self._options.bootstrap, self._options.topics)
        try:
            start = places.resolve(self._options.starting or "earliest")
            return _ranges(self._options, start, places.resolve(self._options.ending))
        finally:
            places.close()

    def read(self, partition: Any) -> Iterator[Any]:
        from tidelog.spark.reading import read

        return read(partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches from startingOffsets (latest where not given) on. Offsets in the checkpoint are JSON by topic and
    partition; partitions that are added later are read from their start."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._places: Any = None
        self._target: dict[Any, int] | None = None

    @property
    def places(self) -> Any:
        from tidelog.spark.offsets import Places

        if self._places is None:
            self._places = Places(self._options.bootstrap, self._options.topics)
        return self._places

    def __getstate__(self) -> dict[str, Any]:
        """Readers travel to executors without their connection."""
        return {**self.__dict__, "_places": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        from tidelog.spark.offsets import to_json

        return to_json(self.places.resolve(self._options.starting or "latest"))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        return ReadAllAvailable() if self._options.limit is None else ReadMaxRows(self._options.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """What is there now is the target; what comes later is for another run."""
        self._target = self.places.latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  Spark's name
        from tidelog.spark.offsets import from_json, limited, to_json

        end = self.places.latest() if self._target is None else dict(self._target)
        begun = self._begun(from_json(start), end)
        end = {name: max(offset, begun[name]) for name, offset in end.items()}
        if isinstance(limit, ReadMaxRows):
            end = limited(begun, end, limit.max_rows)
        return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        from tidelog.spark.offsets import to_json

        return to_json(self.places.latest())

    def _begun(self, start: dict[Any, int], end: dict[Any, int]) -> dict[Any, int]:
        added = [name for name in end if name not in start]
        beginnings = self.places.consumer.beginning_offsets(added) if added else {}
        return {**start, **beginnings}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from tidelog.spark.offsets import from_json

        ends = from_json(end)
        return _ranges(self._options, self._begun(from_json(start), ends), ends)

    def read(self, partition: Any) -> Iterator[Any]:
        from tidelog.spark.reading import read

        return read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint keeps the offsets; nothing is committed to the cluster."""

    def stop(self) -> None:
        if self._places is not None:
            self._places.close()
