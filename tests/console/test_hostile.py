"""A hostile or unlucky cluster, without one: what it answers must neither stop the console's loops nor fill its memory."""

import asyncio
import json

import pytest

from tidelog.console import reading, rendering
from tidelog.console.diagnosis import events_of
from tidelog.console.observer import BrokerView, Observer
from tidelog.console.topology import Topology
from tidelog.console.views import header, timeline
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire import records
from tidelog.wire.compression import Compression
from tidelog.wire.messages.cluster.brokers import BrokerReportResponse, ReportedEvent
from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from tidelog.wire.messages.records.fetch import PartitionData
from tidelog.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BOMB_BYTES = 8 * 1024 * 1024


def test_batches_that_inflate_end_a_piece_and_count_as_what_they_are():
    """A fetch of a megabyte may hold hundreds of batches that inflate to 64 MB each."""
    bombs = b"".join(
        records.build([records.Record(value=bytes(BOMB_BYTES))], base_offset=at, compression=Compression.ZSTD)
        for at in range(8)
    )
    assert len(bombs) < 100_000
    positions, sizes = [], []
    while (at := positions[-1] if positions else 0) < 8:
        left = b"".join(bombs[each.position : each.end] for each in records.batches(bombs) if each.base_offset >= at)
        piece = reading._decoded(0, at, PartitionData(records=left), committed=False)
        assert [read.record.offset for read in piece.found] == list(range(at, piece.next_offset))
        positions.append(piece.next_offset)
        sizes.append(piece.size)
    assert positions == [2, 4, 6, 8]
    assert min(sizes) >= reading.PIECE_BYTES


@pytest.mark.parametrize(
    "headers",
    [
        [("", b"")] * 50_000,
        [("n" * 500_000, b"v" * 500_000)] * 12,
        [("h", bytes(range(256)) * 4_000)] * 3,
    ],
)
def test_a_record_of_headers_is_shown_in_part(headers):
    built = records.build([records.Record(value=b"v", headers=headers)])
    batch = records.header(built)
    (record,) = records.records(built)
    read = reading.Read(0, batch, record)
    listed, opened = rendering.row("t", read), rendering.row("t", read, whole=True)
    assert len(json.dumps(listed)) < 50_000
    assert len(json.dumps(opened)) < 3_000_000
    for row in (listed, opened):
        assert len(row["headers"]) + row["more_headers"] == len(headers)
        assert row["headers"]


class Answering:
    """An admin that answers each request with what a function returns."""

    def __init__(self, answer):
        self._answer = answer

    async def ask(self, request, to, **_):
        return self._answer(request, to)

    def close(self):
        pass


def topology(*topics, brokers=(0,)):
    partition = MetadataResponsePartition(partition_index=0, leader_id=0, replica_nodes=[0], isr_nodes=[0])
    return Topology.of(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=each, host="h", port=1) for each in brokers],
            topics=[MetadataResponseTopic(name=each, partitions=[partition]) for each in topics],
        )
    )


def observing(answer):
    seen = Observer(Answering(answer), Answering(answer))
    seen.topology = topology("t")
    seen.brokers[0] = BrokerView(0, answers=True)
    return seen


def test_a_broker_that_goes_while_its_disks_are_asked_for_is_no_error():
    async def run():
        def answer(_request, to):
            del seen.brokers[to]
            return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", error_code=31_000)])

        seen = observing(answer)
        await seen._look_at_disks()

    asyncio.run(run())


def test_a_topic_that_is_deleted_while_offsets_are_asked_for_is_no_error():
    async def run():
        seen = observing(None)
        seen._learn_ends({TopicPartition("t", 0): 5}, 1.0)
        seen.topology = topology("u")
        seen._learn_ends({TopicPartition("t", 0): 9}, 2.0)
        assert seen.points[-1].records == 0

    asyncio.run(run())


@pytest.mark.parametrize("fields", ["", "[", '{"a": NaN', "nul"])
def test_events_that_are_no_json_end_no_loop_and_are_shown(fields, capsys):
    """A console whose loops have ended would show a healthy cluster for ever."""

    async def run():
        good = False

        def answer(_request, _to):
            event = ReportedEvent(number=1, wall_ms=1, kind="isr.change", level="info", fields="{}" if good else fields)
            return BrokerReportResponse(broker_id=0, facts="{}", events=[event])

        seen = observing(answer)
        for _ in range(2):
            await seen.attempt(seen._read_reports)
        found = header(seen)
        assert found["level"] == "error"
        assert "cannot read what the brokers answer" in found["broken"]
        assert capsys.readouterr().err.count("Traceback") == 1, "printed once, not at each look"
        good = True
        await seen.attempt(seen._read_reports)
        assert header(seen)["broken"] is None

    asyncio.run(run())


def test_events_with_other_fields_are_shown_as_they_are():
    events = [
        ReportedEvent(number=1, wall_ms=1, kind="isr.change", level="info", fields='{"isr": 3}'),
        ReportedEvent(number=2, wall_ms=2, kind="topic.deleted", level="info", fields='{"topic": "t"}'),
        ReportedEvent(number=3, wall_ms=3, kind="topic.deleted", level="info", fields="[1]"),
    ]
    shown = timeline(list(events_of([BrokerReportResponse(broker_id=0, facts="{}", events=events)])))
    assert [each["says"] for each in shown] == ["isr=3", "topic t is gone"]


def test_a_refused_look_is_no_failure_of_the_console():
    async def run():
        seen = observing(lambda *_: MetadataResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        seen.brokers.clear()
        await seen.attempt(seen._look_at_topology)
        assert "CLUSTER_AUTHORIZATION_FAILED" in seen.refusal
        assert seen.broken == {}

    asyncio.run(run())
