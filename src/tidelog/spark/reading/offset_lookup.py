"""Lookups on the driver: which partitions exist, and which offsets a limit means."""

import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any, TypeVar

from tidelog.client.offset_lookups import FoundOffset
from tidelog.client.positions import EARLIEST, LATEST
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.options import BadOption
from tidelog.spark.reading import limits
from tidelog.spark.reading.offsets import Offsets, QueryOffset
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.spark.reading.topics import FoundTopics, find_topics, listed

T = TypeVar("T")


class OffsetLookup:
    """Looks up partitions and offsets, with one connection for as long as Spark keeps the reader."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._consumer: Consumer | None = None
        self._admin: Admin | None = None
        self.common_ends: dict[tuple[TopicPartition, int, int], int] = {}
        """Where an epoch's records end in the log of a leader's epoch, as far as it was requested."""

    @property
    def consumer(self) -> Consumer:
        if self._consumer is None:
            client = {**asdict(self._options.client), "auto_offset_reset": "none"}
            del client["group_id"]
            self._consumer = Consumer(self._options.bootstrap, **client)
        return self._consumer

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = self._options.access.admin()
        return self._admin

    def close(self) -> None:
        for client in (self._consumer, self._admin):
            if client is not None:
                client.close()
        self._consumer = self._admin = None

    # Which partitions.

    def assigned(self) -> FoundTopics:
        """The existing partitions of the selected topics; retries as often as fetchOffset.numRetries allows while some
        are missing."""
        found = self._retried(self._find, lambda found: not found.missing)
        if found.missing:
            raise BadOption(
                f"option {self._options.chosen.option!r}: the cluster has no {', '.join(sorted(found.missing))}; "
                "a read creates no topic"
            )
        return found

    def _find(self) -> FoundTopics:
        return self._explained(lambda: find_topics(self.admin, self._options.chosen))

    def check_topics(self, known: QueryOffset) -> None:
        """BadOption for a checkpoint of other topics than the selected ones."""
        picked = self._options.chosen
        topics = {name.topic for name in known.offsets}
        if topics and not any(topic in picked.topics or picked.matches(topic) for topic in topics):
            raise BadOption(
                f"the checkpoint is of topic {', '.join(sorted(topics))}, which option {picked.option!r} does not name:"
                " give the query a checkpointLocation of its own, or the topics that it was started with"
            )

    def latest(self, known: QueryOffset) -> QueryOffset:
        """The end offsets of all partitions. If a known partition is missing or behind, it retries as often as
        fetchOffset.numRetries allows: a broker that just took over may report an older state."""

        def is_plausible(found: tuple[FoundTopics, QueryOffset]) -> bool:
            there, point = found
            if there.missing:
                return False
            return all(
                point.offsets.get(name, -1) >= offset
                for name, offset in known.offsets.items()
                if there.ids.get(name.topic) == known.ids.get(name.topic)
            )

        def look() -> tuple[FoundTopics, QueryOffset]:
            found = self._find()
            return found, self._point(found)

        there, point = self._retried(look, is_plausible)
        never_seen = {
            name for name in there.missing if name.split(" ")[0] not in {name.topic for name in known.offsets}
        }
        if never_seen:
            raise BadOption(
                f"option {self._options.chosen.option!r}: the cluster has no {', '.join(sorted(never_seen))}; "
                "a read creates no topic"
            )
        return point

    def _point(self, found: FoundTopics) -> QueryOffset:
        ends = self.found(dict.fromkeys(found.epochs, LATEST))
        epochs = {
            name: found_offset.leader_epoch for name, found_offset in ends.items() if found_offset.leader_epoch >= 0
        }
        ids = {topic: text for topic, text in found.ids.items() if text}
        return QueryOffset({name: found_offset.offset for name, found_offset in ends.items()}, ids, epochs)

    # Which offsets.

    def found(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """Offsets for EARLIEST, LATEST or times."""
        requested = {(name.topic, name.partition): time for name, time in wanted.items()}
        return self._explained(lambda: self.consumer.offsets_for_times(requested)) if wanted else {}

    def earliest(self, names: Collection[TopicPartition]) -> Offsets:
        return {name: found_offset.offset for name, found_offset in self.found(dict.fromkeys(names, EARLIEST)).items()}

    def ends(self, names: Collection[TopicPartition]) -> Offsets:
        return {name: found_offset.offset for name, found_offset in self.found(dict.fromkeys(names, LATEST)).items()}

    def resolve(self, limit: limits.Limit, names: Collection[TopicPartition], *, starting: bool) -> Offsets:
        """The offsets that a limit means for these partitions; BadOption if it misses one, or names one that does not
        exist."""
        if isinstance(limit, limits.EdgeLimit):
            return self.earliest(names) if limit.edge == EARLIEST else self.ends(names)
        positions = dict.fromkeys(names, limit.time) if limit.places is None else limit.places
        self._check_all(limit, positions, names)
        if isinstance(limit, limits.TimeLimit):
            return self._at_times(limit, positions, starting=starting)
        edges = self.found(
            {name: found_offset for name, found_offset in positions.items() if found_offset in (EARLIEST, LATEST)}
        )
        return {name: edges[name].offset if name in edges else found_offset for name, found_offset in positions.items()}

    def _check_all(self, limit: Any, positions: Collection[TopicPartition], names: Collection[TopicPartition]) -> None:
        if set(positions) != set(names):
            missing, odd = set(names) - set(positions), set(positions) - set(names)
            said = f"nothing is said of {listed(missing)}" if missing else f"{listed(odd)} is not there to be read"
            raise BadOption(
                f"option {limit.option!r}: {said}; it must name exactly the partitions that are read "
                f"(-2 stands for earliest, -1 for latest). Given: {listed(positions)}. To be read: {listed(names)}"
            )

    def _at_times(self, limit: limits.TimeLimit, times: dict[TopicPartition, int], *, starting: bool) -> Offsets:
        found = self.found(times)
        late = [name for name, found_offset in found.items() if found_offset.offset < 0]
        if late and starting and not limit.falls_back:
            raise BadOption(
                f"option {limit.option!r}: {late[0]} has no record at or after {times[late[0]]}; with option "
                "'startingOffsetsByTimestampStrategy' set to latest such partitions start at their end"
            )
        ends = self.ends(late) if late else {}
        return {name: ends.get(name, found_offset.offset) for name, found_offset in found.items()}

    # Trying again.

    def _retried(self, look: Callable[[], T], is_good: Callable[[T], bool]) -> T:
        found = look()
        for _ in range(self._options.tries - 1):
            if is_good(found):
                break
            time.sleep(self._options.retry_ms / 1000)
            found = look()
        return found

    def _explained(self, ask: Callable[[], T]) -> T:
        """The result of the request; errors name the option to change."""
        with self._options.access.explained_errors(self._options.client.default_api_timeout_ms):
            return ask()
