"""What a leader gives to the replicas that fetch from it: records, where logs diverge, and slices of snapshots.

A fetch that has nothing to get waits here, until there are records (for an observer: committed ones), the high
watermark is higher than the one that it knows, or its time is over.
"""

from typing import Any, NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.model import Time
from tidelog.quorum import requests
from tidelog.quorum.options import Options
from tidelog.quorum.outbox import Outbox
from tidelog.quorum.replica import Replica
from tidelog.quorum.requests import LeaderAndEpoch
from tidelog.quorum.snapshots import SnapshotId
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.wire.messages.cluster import fetch_snapshot
from tidelog.wire.messages.records import fetch


class Waiting(NamedTuple):
    """A fetch that waits, of this replica."""

    token: int
    key: ReplicaKey
    partition: fetch.FetchPartition
    deadline: int

    def is_due(self, end: int, high_watermark: int, now: int) -> bool:
        """Whether there is something to say; `end` is that of the records that the replica can use."""
        wanted = self.partition.fetch_offset < end
        return wanted or self.partition.high_watermark < high_watermark or self.deadline <= now


class Serving:
    """`standing` and the high watermark to give out are arguments: they belong to the state of the replica."""

    def __init__(self, replica: Replica, outbox: Outbox, options: Options) -> None:
        self._replica = replica
        self._outbox = outbox
        self._options = options
        self._waiting: list[Waiting] = []

    def __repr__(self) -> str:
        return f"Serving({len(self._waiting)} waiting)"

    @property
    def deadlines(self) -> list[int]:
        return [waiting.deadline for waiting in self._waiting]

    def find_place(
        self, token: int, partition: fetch.FetchPartition, standing: LeaderAndEpoch, high_watermark: int
    ) -> bool:
        """Whether records can follow where the replica's log ends. Otherwise the answer names a snapshot to
        fetch, or where the logs diverge."""
        last_epoch, offset = partition.last_fetched_epoch, partition.fetch_offset
        content: dict[str, Any] = {}
        snapshot = self._replica.snapshot_for(last_epoch, offset)
        if snapshot is not None:
            content["snapshot_id"] = fetch.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        elif (diverging := self._replica.diverging(last_epoch, offset)) is not None:
            content["diverging_epoch"] = fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
        else:
            return True
        self._reply(token, standing, high_watermark, **content)
        return False

    def wait(self, token: int, key: ReplicaKey, partition: fetch.FetchPartition, wait_ms: int, now: Time) -> None:
        """Let the fetch wait; `answer` answers what need not."""
        deadline = now.mono + min(max(wait_ms, 0), self._options.fetch_wait_ms)
        self._waiting.append(Waiting(token, key, partition, deadline))

    def answer(self, standing: LeaderAndEpoch, voters: VoterSet, high_watermark: int, now: Time) -> None:
        """Answer what waits, where there is something to say. An observer can use records only once they are committed,
        so it gets both with one answer: each of a hundred brokers would else get two for each record."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            end = self._replica.end if each.key in voters else high_watermark
            if not each.is_due(end, high_watermark, now.mono):
                self._waiting.append(each)
            elif each.partition.fetch_offset < self._replica.end:
                self._send_records(each, standing, high_watermark)
            else:
                self._reply(each.token, standing, high_watermark)

    def _send_records(self, waiting: Waiting, standing: LeaderAndEpoch, high_watermark: int) -> None:
        most = min(waiting.partition.partition_max_bytes, self._options.fetch_bytes)
        try:
            piece = self._replica.read(waiting.partition.fetch_offset, most)
        except ApiError as error:  # they are damaged here, or were removed after a snapshot while the fetch waited
            self.refuse(waiting.token, standing, error.code)
            return
        self._reply(waiting.token, standing, high_watermark, records=piece if piece is not None else b"")

    def end(self, standing: LeaderAndEpoch) -> None:
        """It leads no more: what waits must look for the next leader."""
        for waiting in self._waiting:
            self.refuse(waiting.token, standing, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._waiting = []

    def refuse(self, token: int, standing: LeaderAndEpoch, code: ErrorCode) -> None:
        self._outbox.reply(token, requests.fetch_response(standing, code))

    def _reply(self, token: int, standing: LeaderAndEpoch, high_watermark: int, **content: Any) -> None:
        self._outbox.reply(token, requests.fetch_response(standing, high_watermark=high_watermark, **content))

    def snapshot_slice(
        self, request: fetch_snapshot.FetchSnapshotRequest, partition: Any, standing: LeaderAndEpoch
    ) -> fetch_snapshot.FetchSnapshotResponse:
        """A slice of a snapshot. The bootstrap snapshot is not sent: every folder is formatted with its own."""
        which = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if which.end_offset <= 0 or which not in self._replica.snapshots:
            return requests.snapshot_response(standing, which, ErrorCode.SNAPSHOT_NOT_FOUND)
        size = self._replica.snapshots.size(which)
        if not 0 <= partition.position < size:
            return requests.snapshot_response(standing, which, ErrorCode.POSITION_OUT_OF_RANGE)
        most = min(max(request.max_bytes, 1), self._options.snapshot_bytes)
        return requests.snapshot_response(
            standing,
            which,
            size=size,
            position=partition.position,
            records=self._replica.snapshots.read(which, partition.position, most),
        )
