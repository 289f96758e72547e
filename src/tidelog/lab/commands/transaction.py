"""The application's transactions (KIP-98): a result in topic `results` and a position of its group, both or neither.

Each life of the application begins with InitProducerId under the same transactional id: the coordinator raises the
epoch, which fences the life before, and aborts what it left open.
"""

from collections.abc import Callable
from typing import Any

from tidelog.lab import asking
from tidelog.lab.commands import topics
from tidelog.lab.play import Play
from tidelog.lab.stage import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.host import WALL_START
from tidelog.wire import records
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.transactions.end_txn import EndTxnRequest
from tidelog.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP = "application"
RESULTS = TopicPartition("results", 0)
READ_COMMITTED = 1
TIMEOUT_MS = 60_000
GROUPS, TRANSACTIONS = 0, 1
TRIES = 20

Code = Callable[[Any], int]
"""The error code in an answer."""


def coordinator(play: Play, kind: int = GROUPS) -> str:
    """Asked until its topic stands, as every client does."""
    request = FindCoordinatorRequest(key=GROUP, key_type=kind)
    answer = patiently(play, lambda: CONTROLLER, asking.FIND_COORDINATOR, request, lambda found: int(found.error_code))
    return play.stage.names[answer.node_id]


def patiently(play: Play, broker: Callable[[], str], key: int, request: Any, code: Code) -> Any:
    """Ask again while it is refused: coordinators load, topics are made."""
    for _ in range(TRIES):
        answer = play.answer(broker(), key, request)
        if answer is not None and code(answer) == 0:
            return answer
        play.run()
    raise play.impossible(f"{type(request).__name__} is refused again and again.")


def begin_anew(play: Play) -> None:
    """A new life: the transactional id gets its next epoch."""
    if play.stage.state(RESULTS) is None:
        topics.make(play, RESULTS.topic, [play.leader()], {})
    request = InitProducerIdRequest(transactional_id=GROUP, transaction_timeout_ms=TIMEOUT_MS)
    answer = _ask(play, asking.INIT_PRODUCER_ID, request, lambda found: int(found.error_code))
    play.application.identity = answer.producer_id, answer.producer_epoch, 0


def carry_out(play: Play, value: str, position: int, *, end: bool) -> None:
    """One transaction: the result, the position, and the end, which a crash leaves out."""
    if play.application.identity is None:
        begin_anew(play)
    assert play.application.identity is not None
    number, epoch, sequence = play.application.identity
    _add_results(play, number, epoch)
    _write(play, value, number, epoch, sequence)
    _add_position(play, position, number, epoch)
    if end:
        request = EndTxnRequest(transactional_id=GROUP, producer_id=number, producer_epoch=epoch, committed=True)
        _ask(play, asking.END_TXN, request, lambda found: int(found.error_code))
    play.application.identity = number, epoch, sequence + 1
    play.run()


def _ask(play: Play, key: int, request: Any, code: Code) -> Any:
    return patiently(play, lambda: coordinator(play, TRANSACTIONS), key, request, code)


def _add_results(play: Play, number: int, epoch: int) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=GROUP,
        v3_and_below_producer_id=number,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=RESULTS.topic, partitions=[RESULTS.partition])],
    )
    _ask(play, asking.ADD_PARTITIONS, request, _added)


def _added(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def _write(play: Play, value: str, number: int, epoch: int, sequence: int) -> None:
    wall = WALL_START + play.stage.world.micros // 1000
    content = records.build(
        [records.Record(timestamp=wall, value=value.encode())],
        attributes=records.TRANSACTIONAL,
        producer_id=number,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    data = PartitionProduceData(index=RESULTS.partition, records=content)
    topic = TopicProduceData(name=RESULTS.topic, partition_data=[data])
    request = ProduceRequest(transactional_id=GROUP, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
    patiently(play, lambda: play.stage.leader(RESULTS), asking.PRODUCE, request, _written)


def _written(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def _add_position(play: Play, position: int, number: int, epoch: int) -> None:
    adding = AddOffsetsToTxnRequest(transactional_id=GROUP, producer_id=number, producer_epoch=epoch, group_id=GROUP)
    _ask(play, asking.ADD_OFFSETS, adding, lambda found: int(found.error_code))
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=position, committed_metadata="")
    committing = TxnOffsetCommitRequest(
        transactional_id=GROUP,
        group_id=GROUP,
        producer_id=number,
        producer_epoch=epoch,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=play.name.topic, partitions=[partition])],
    )
    patiently(
        play,
        lambda: coordinator(play),
        asking.TXN_OFFSET_COMMIT,
        committing,
        lambda found: int(found.topics[0].partitions[0].error_code),
    )


def results(play: Play) -> list[str]:
    """What a reader of committed records finds in the results: neither markers nor what was aborted."""
    content = b""
    aborted: set[tuple[int, int]] = set()
    while True:
        data = _read(play, _end(content))
        aborted |= {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()}
        if not data.records:
            return _without_aborted(content, aborted)
        content += bytes(data.records)


def _read(play: Play, offset: int) -> Any:
    wanted = FetchPartition(partition=RESULTS.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=RESULTS.topic, partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=READ_COMMITTED, topics=[topic])
    answer = patiently(play, lambda: play.stage.leader(RESULTS), asking.FETCH, request, lambda found: found.error_code)
    return answer.responses[0].partitions[0]


def _end(content: bytes) -> int:
    return max((batch.next_offset for batch in records.batches(content)), default=0)


def _without_aborted(content: bytes, aborted: set[tuple[int, int]]) -> list[str]:
    """A producer's records are aborted from the first offset named up to its next marker."""
    found: list[str] = []
    dropped: set[int] = set()
    for batch in records.batches(content):
        dropped |= {number for number, first in aborted if number == batch.producer_id and first == batch.base_offset}
        if batch.is_control:
            dropped.discard(batch.producer_id)
        elif batch.producer_id not in dropped:
            found += [bytes(record.value or b"").decode() for record in records.records(content, batch)]
    return found
