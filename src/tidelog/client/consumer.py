"""The consumer: records of partitions that were assigned manually or by the group, in order, from a position in each.

Positions move when `poll` returns records. At most once: commit, then process. At least once: process, then commit; so
the consumer's own commits (`enable.auto.commit`) happen only in `poll`, when the records returned before are processed.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tidelog.client.backoff import Entropy
from tidelog.client.client import Client
from tidelog.client.fetcher import RESETS, FetchedBatches, Fetcher, isolation_level
from tidelog.client.group.group import PROTOCOLS, Group
from tidelog.client.offset_lookups import FoundOffset, OffsetLookups
from tidelog.client.options import Address, ConsumerOptions
from tidelog.client.positions import Need, PartitionPosition, Positions
from tidelog.client.results import CommittedOffset, ConsumerRecord, Done, Event, Failed, GroupPlace
from tidelog.effects import Effect
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.model import INTERNAL_TOPICS, Time, TopicPartition, earliest


class Consumer(Client):
    """Inputs and effects as in `Client`. Calls that need a response return a ticket, whose `Done` comes with
    `take_results`; changes of the assignment come with `take_events`."""

    def __init__(self, bootstrap: Sequence[Address], options: ConsumerOptions, entropy: Entropy) -> None:
        super().__init__(bootstrap, options, entropy, creates_topics=options.allow_auto_create_topics)
        if options.auto_offset_reset not in RESETS:
            raise InvalidOption(
                f"auto.offset.reset must be one of {', '.join(RESETS)}, not {options.auto_offset_reset!r}"
            )
        if options.group_protocol not in PROTOCOLS:
            raise InvalidOption(f"group.protocol must be one of {', '.join(PROTOCOLS)}, not {options.group_protocol!r}")
        self.options = options
        self.positions = Positions()
        self.group = None if options.group_id is None else Group(options.group_id, self.cluster, options)
        self._fetcher = Fetcher(self.cluster, self.positions, options)
        self._lookups = OffsetLookups(self.cluster, isolation_level(options))
        self._pattern: re.Pattern[str] | None = None
        self._is_subscribed = False
        self._metadata_seen = -1
        self._last_ticket = 0
        self._results: list[Done] = []
        self._was_polled = False
        self._events: list[Event] = []
        self._auto_commit_at = 0
        self._is_auto_committing = False
        self._is_closing = False

    def __repr__(self) -> str:
        return f"<Consumer {self.options.group_id or 'without group'} {self.positions}>"

    # What to read.

    def subscribe(self, topics: Collection[str], now: Time) -> list[Effect]:
        """Read these topics as a member of the group, which assigns the partitions."""
        self._pattern = None
        self._subscribe(topics, now)
        return self._turn(now)

    def subscribe_pattern(self, pattern: str, now: Time) -> list[Effect]:
        """As `subscribe`, for all topics whose whole name matches, including topics created later."""
        self._pattern = re.compile(pattern)
        self.metadata.wants_all = True
        self._metadata_seen = -1
        self._subscribe((), now)
        self.cluster.request_metadata_update(now)
        return self._turn(now)

    def assign(self, partitions: Collection[TopicPartition], now: Time) -> list[Effect]:
        """Read exactly these partitions, without group membership; partitions that were already assigned keep their
        positions."""
        self._leave_group("assigned by hand", now)
        self._was_polled = False
        self.positions.assign(partitions)
        self._auto_commit_at = now.mono + self.options.auto_commit_interval_ms
        self.cluster.add_topics({partition.topic for partition in partitions}, now)
        return self._turn(now)

    def unsubscribe(self, now: Time) -> list[Effect]:
        """Read nothing, and leave the group."""
        return self.assign((), now)

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self.positions.by_partition)

    # Where to read.

    def seek(self, partition: TopicPartition, offset: int, now: Time, *, leader_epoch: int = -1) -> list[Effect]:
        """Continue at that offset; KeyError if the partition is not assigned."""
        self.positions.by_partition[partition].move(offset, leader_epoch)
        return self._turn(now)

    def seek_to(self, partitions: Collection[TopicPartition], timestamp: int, now: Time) -> list[Effect]:
        """Continue at EARLIEST, LATEST or the first record at or after a timestamp (at the end if there is none)."""
        for partition in partitions:
            self.positions.by_partition[partition].reset(timestamp)
        return self._turn(now)

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to return; None while it is being looked up."""
        offset = self.positions.by_partition[partition].offset
        return offset if offset >= 0 else None

    def pause(self, partitions: Collection[TopicPartition], now: Time) -> list[Effect]:
        for partition in partitions:
            self.positions.by_partition[partition].is_paused = True
        return self._turn(now)

    def resume(self, partitions: Collection[TopicPartition], now: Time) -> list[Effect]:
        for partition in partitions:
            self.positions.by_partition[partition].is_paused = False
        return self._turn(now)

    # Reading.

    def poll(self, now: Time, most: int | None = None) -> tuple[list[ConsumerRecord], list[Effect]]:
        """The next records, at most `max.poll.records`. Calling it also means that the records returned before are
        processed."""
        taken: list[ConsumerRecord] = []
        if self._can_return_records(now):
            taken = self._fetcher.take(self.options.max_poll_records if most is None else most, now)
        return taken, self._turn(now)

    def poll_batches(self, now: Time, until: int | None = None) -> tuple[list[FetchedBatches], list[Effect]]:
        """As `poll`, but returns the fetched batches undecoded, for callers that decode them. Do not mix it with
        `poll`. A partition whose position has reached `until` is paused, so that nothing beyond it is fetched in
        advance."""
        taken = self._fetcher.take_batches(now) if self._can_return_records(now) else []
        for position in self.positions.by_partition.values():
            position.is_paused |= until is not None and position.offset >= until
        return taken, self._turn(now)

    def _can_return_records(self, now: Time) -> bool:
        self._was_polled = True
        if self._is_subscribed and self.group is not None:
            self.group.membership.polled(now)
        self._maybe_auto_commit(now)
        is_giving_up = self.group is not None and self.group.membership.must_commit
        return not is_giving_up and not self._is_closing

    def waits(self, now: Time, patience_ms: int) -> list[str]:
        """Why assigned partitions have not been read for at least `patience_ms`, in words."""
        return self._fetcher.waits(now, patience_ms)

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def take_results(self) -> list[Done]:
        results, self._results = self._results, []
        return results

    # Requests.

    def commit(
        self, now: Time, offsets: Mapping[TopicPartition, CommittedOffset] | None = None
    ) -> tuple[int, list[Effect]]:
        """Commit these offsets, or the position of every partition. `Done.value` is what was committed."""
        ticket = self._ticket()
        wanted = self._processed() if offsets is None else offsets
        if self.group is None:
            self._results.append(Done(ticket, error=ErrorCode.INVALID_GROUP_ID, message="no group.id is configured"))
        elif not wanted:
            self._results.append(Done(ticket, {}))
        else:
            finish = self._finish(ticket, "the offsets were not committed")
            self.group.offsets.commit(wanted, finish, now, self.options.default_api_timeout_ms)
        return ticket, self._turn(now)

    @property
    def group_place(self) -> GroupPlace:
        """The consumer's membership, for offsets committed in transactions (`TransactionalProducer.send_offsets`)."""
        assert self.group is not None, "a consumer without a group has no membership"
        membership = self.group.membership
        member = membership.member_id if membership.generation >= 0 else ""
        return GroupPlace(self.options.group_id or "", membership.generation, member, self.options.group_instance_id)

    def committed(self, partitions: Collection[TopicPartition], now: Time) -> tuple[int, list[Effect]]:
        """`Done.value`: the group's `CommittedOffset` by partition; partitions without one are missing."""
        ticket = self._ticket()
        if self.group is None:
            self._results.append(Done(ticket, error=ErrorCode.INVALID_GROUP_ID, message="no group.id is configured"))
        else:
            finish = self._finish(ticket, "the committed offsets were not fetched")
            self.group.offsets.fetch(partitions, finish, now, self.options.default_api_timeout_ms)
        return ticket, self._turn(now)

    def look_up(self, wanted: Mapping[TopicPartition, int], now: Time) -> tuple[int, list[Effect]]:
        """Offsets for timestamps, EARLIEST or LATEST. `Done.value`: `FoundOffset` by partition."""
        ticket = self._ticket()
        finish = self._finish(ticket, "the offsets were not found")
        self._lookups.look_up(wanted, finish, now, self.options.default_api_timeout_ms)
        return ticket, self._turn(now)

    # The end.

    def close(self, now: Time) -> list[Effect]:
        """Commit if auto-commit is enabled, leave the group and close the connections; `is_closed` is true when that is
        done."""
        self._is_closing = True
        if self.group is None or not self.options.enable_auto_commit or not self._processed():
            return self.abandon(now)
        self.group.offsets.commit(
            self._processed(), lambda _value, _code, _now: None, now, self.options.default_api_timeout_ms
        )
        return self._turn(now)

    def abandon(self, now: Time) -> list[Effect]:
        """Close without waiting for anything."""
        self._leave_group("the consumer is closed", now)
        self._closed = True
        self.network.close()
        return self.network.take_effects()

    @property
    def is_closed(self) -> bool:
        return self._closed

    # The turn.

    def _advance(self, now: Time) -> None:
        if self._is_closing and (self.group is None or self.group.offsets.is_idle):
            self._leave_group("the consumer is closed", now)
            self._closed = True
            self.network.close()
            return
        if self.group is not None:
            self._advance_group(self.group, now)
        self._find_offsets(now)
        self._lookups.advance(now)
        if self.group is not None:
            self.group.offsets.advance(now)
        self._fetcher.advance(now)
        self._events += self._fetcher.events
        self._fetcher.events.clear()

    def _advance_group(self, group: Group, now: Time) -> None:
        if not self._is_subscribed or self._is_closing:
            return
        if self._pattern is not None and self._metadata_seen != self.metadata.updates:
            self._metadata_seen = self.metadata.updates
            group.membership.subscribe(self._matching(self._pattern))
        group.membership.advance(now)
        self._events += group.membership.events
        group.membership.events.clear()
        if group.membership.owned != self.positions.by_partition.keys():
            self.positions.assign(group.membership.owned)

    def _matching(self, pattern: re.Pattern[str]) -> list[str]:
        return [name for name in self.metadata.topics if pattern.fullmatch(name) and name not in INTERNAL_TOPICS]

    def _own_deadline(self) -> int | None:
        moments = [self._lookups.deadline, self._fetcher.deadline]
        if self.group is not None:
            moments.append(self.group.offsets.deadline)
            if self._is_subscribed and not self._is_closing:
                moments.append(self.group.membership.deadline)
        return earliest(*moments)

    def _subscribe(self, topics: Collection[str], now: Time) -> None:
        if self.group is None:
            raise InvalidOption("subscribing requires a group.id")
        self._is_subscribed = True
        self._auto_commit_at = now.mono + self.options.auto_commit_interval_ms
        self.cluster.add_topics(topics, now)
        self.group.membership.subscribe(topics)

    def _leave_group(self, reason: str, now: Time) -> None:
        if self.group is not None and self._is_subscribed:
            self.group.membership.leave(reason, now)
            self.group.membership.subscribe(())
        self._is_subscribed = False
        self._pattern = None

    # Finding offsets.

    def _find_offsets(self, now: Time) -> None:
        """Look up an offset for every partition that needs one."""
        by_partition = self.positions.by_partition
        uncommitted = [
            partition for partition in by_partition if by_partition[partition].needs(Need.COMMITTED, now.mono)
        ]
        if uncommitted and self.group is not None:
            self._fetch_committed(self.group, uncommitted, now)
        else:
            for partition in uncommitted:
                self._reset(partition, by_partition[partition], now)
        unknown = {
            p: position.reset_to for p, position in by_partition.items() if position.needs(Need.OFFSET, now.mono)
        }
        if unknown:
            self._fetch_offsets(unknown, now)

    def _fetch_committed(self, group: Group, partitions: Collection[TopicPartition], now: Time) -> None:
        versions = self._mark_busy(partitions)

        def finish(value: Mapping[TopicPartition, CommittedOffset] | None, code: ErrorCode, now: Time) -> None:
            for partition, position in self._not_moved_since(versions):
                if code or value is None:
                    self._report_failure(partition, position, code, "has no known committed offset", now)
                elif partition in value:
                    position.move(value[partition].offset, value[partition].leader_epoch)
                    self._learn_epoch(partition, value[partition].leader_epoch, now)
                else:
                    self._reset(partition, position, now)

        group.offsets.fetch(partitions, finish, now, self.options.default_api_timeout_ms)

    def _fetch_offsets(self, wanted: Mapping[TopicPartition, int], now: Time) -> None:
        versions = self._mark_busy(wanted)

        def finish(found: Mapping[TopicPartition, FoundOffset], code: ErrorCode, now: Time) -> None:
            for partition, position in self._not_moved_since(versions):
                if partition not in found:
                    self._report_failure(partition, position, code, "has no known offsets", now)
                elif found[partition].offset >= 0:
                    position.move(found[partition].offset)
                    self._learn_epoch(partition, found[partition].leader_epoch, now)
                else:
                    position.reset(-1)  # no record is that new: continue at the end

        self._lookups.look_up(wanted, finish, now, self.options.default_api_timeout_ms)

    def _learn_epoch(self, partition: TopicPartition, leader_epoch: int, now: Time) -> None:
        """Make the metadata stale if its leader has an older epoch than the committed offset: that leader may not have
        the record."""
        if self.metadata.learn_epoch(partition, leader_epoch):
            self.cluster.request_metadata_update(now)

    def _mark_busy(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        for partition in partitions:
            self.positions.by_partition[partition].is_busy = True
        return {partition: self.positions.by_partition[partition].version for partition in partitions}

    def _not_moved_since(
        self, versions: Mapping[TopicPartition, int]
    ) -> list[tuple[TopicPartition, PartitionPosition]]:
        """Those that are still assigned and were not moved meanwhile; they are no longer busy."""
        by_partition = [(p, self.positions.by_partition[p]) for p in versions if p in self.positions.by_partition]
        unmoved = [
            (partition, position) for partition, position in by_partition if position.version == versions[partition]
        ]
        for _, position in unmoved:
            position.is_busy = False
        return unmoved

    def _reset(self, partition: TopicPartition, position: PartitionPosition, now: Time) -> None:
        to = RESETS[self.options.auto_offset_reset]
        if to is None and not self._was_polled:
            return  # a seek may follow the assignment
        if to is None:
            self._report_failure(
                partition,
                position,
                ErrorCode.OFFSET_OUT_OF_RANGE,
                "has no committed offset, and auto.offset.reset is none",
                now,
            )
        else:
            position.reset(to)

    def _report_failure(
        self, partition: TopicPartition, position: PartitionPosition, code: ErrorCode, reason: str, now: Time
    ) -> None:
        self._events.append(Failed(code, f"{partition} {reason}", (partition,)))
        position.failed(now.mono, self.options.retry_backoff_ms, self.options.retry_backoff_max_ms)

    # Commits.

    def _processed(self) -> dict[TopicPartition, CommittedOffset]:
        known = self.positions.known()
        return {
            partition: CommittedOffset(position.offset, "", position.epoch) for partition, position in known.items()
        }

    def _maybe_auto_commit(self, now: Time) -> None:
        """Commit if the interval is over, or if partitions are about to be revoked."""
        if self.group is None or self._is_auto_committing:
            return
        membership = self.group.membership
        commits = self.options.enable_auto_commit and bool(self._processed())
        is_due = self._is_subscribed and membership.must_commit
        if not commits:
            if is_due:
                membership.committed()
            return
        if not is_due and now.mono < self._auto_commit_at:
            return
        self._auto_commit_at = now.mono + self.options.auto_commit_interval_ms
        self._is_auto_committing = True

        def finish(_value: object, _code: ErrorCode, _now: Time) -> None:
            self._is_auto_committing = False
            if is_due:
                membership.committed()

        timeout = self.options.default_api_timeout_ms if is_due else self.options.auto_commit_interval_ms
        self.group.offsets.commit(self._processed(), finish, now, timeout)

    def _ticket(self) -> int:
        self._last_ticket += 1
        return self._last_ticket

    def _finish(self, ticket: int, failure: str) -> Callable[[Any, ErrorCode, Time], None]:
        def finish(value: object, code: ErrorCode, _now: Time) -> None:
            self._results.append(Done(ticket, value, code, failure if code else None))

        return finish
