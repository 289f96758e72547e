"""An application that reads the topic record by record, processes each, and keeps its position.

`at_most_once` commits its position first, `at_least_once` afterwards; `exactly_once` writes its result to topic
`results` and its position to its group in one transaction (KIP-98), both or neither. A crash between the two halves
shows what each is worth.

Each life of the application begins with InitProducerId under the same transactional ID: the coordinator raises the
epoch, which fences the previous life, and aborts the transaction that it left open.
"""

from collections.abc import Callable
from typing import Any

from tidelog.lab import requests
from tidelog.lab.commands import topics
from tidelog.lab.commands.clients import read
from tidelog.lab.language import Command
from tidelog.lab.play import CommandEntry, Play, command_entry
from tidelog.lab.stage import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.host import WALL_START
from tidelog.wire import records
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.transactions.transaction_requests import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
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
"""The error code in a response."""

SEMANTICS = ("at_most_once", "at_least_once", "exactly_once")


def coordinator(play: Play, kind: int = GROUPS) -> str:
    """Find the coordinator, again until its topic exists, as every client does."""
    request = FindCoordinatorRequest(key=GROUP, key_type=kind)
    answer = request_until_accepted(
        play, lambda: CONTROLLER, requests.FIND_COORDINATOR, request, lambda found: int(found.error_code)
    )
    return play.stage.names[answer.node_id]


def request_until_accepted(play: Play, broker: Callable[[], str], key: int, request: Any, code: Code) -> Any:
    """Repeat the request while it is refused: coordinators load, topics are created."""
    for _ in range(TRIES):
        answer = play.answer(broker(), key, request)
        if answer is not None and code(answer) == 0:
            return answer
        play.run()
    raise play.impossible(f"{type(request).__name__} is refused again and again.")


def init_producer(play: Play) -> None:
    """Begin a new life: the transactional ID gets its next epoch."""
    if play.stage.state(RESULTS) is None:
        topics.make(play, RESULTS.topic, [play.leader()], {})
    request = InitProducerIdRequest(transactional_id=GROUP, transaction_timeout_ms=TIMEOUT_MS)
    answer = _request_transaction(play, requests.INIT_PRODUCER_ID, request, lambda found: int(found.error_code))
    play.application.identity = answer.producer_id, answer.producer_epoch, 0


def run_transaction(play: Play, value: str, position: int, *, end: bool) -> None:
    """Run one transaction: the result, the position, and the end, which a crash leaves out."""
    if play.application.identity is None:
        init_producer(play)
    assert play.application.identity is not None
    number, epoch, sequence = play.application.identity
    _add_results(play, number, epoch)
    _write_result(play, value, number, epoch, sequence)
    _add_position(play, position, number, epoch)
    if end:
        request = EndTxnRequest(transactional_id=GROUP, producer_id=number, producer_epoch=epoch, committed=True)
        _request_transaction(play, requests.END_TXN, request, lambda found: int(found.error_code))
    play.application.identity = number, epoch, sequence + 1
    play.run()


def _request_transaction(play: Play, key: int, request: Any, code: Code) -> Any:
    return request_until_accepted(play, lambda: coordinator(play, TRANSACTIONS), key, request, code)


def _add_results(play: Play, number: int, epoch: int) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=GROUP,
        v3_and_below_producer_id=number,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=RESULTS.topic, partitions=[RESULTS.partition])],
    )
    _request_transaction(play, requests.ADD_PARTITIONS, request, _added)


def _added(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def _write_result(play: Play, value: str, number: int, epoch: int, sequence: int) -> None:
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
    request_until_accepted(play, lambda: play.stage.leader(RESULTS), requests.PRODUCE, request, _written)


def _written(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def _add_position(play: Play, position: int, number: int, epoch: int) -> None:
    adding = AddOffsetsToTxnRequest(transactional_id=GROUP, producer_id=number, producer_epoch=epoch, group_id=GROUP)
    _request_transaction(play, requests.ADD_OFFSETS, adding, lambda found: int(found.error_code))
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=position, committed_metadata="")
    committing = TxnOffsetCommitRequest(
        transactional_id=GROUP,
        group_id=GROUP,
        producer_id=number,
        producer_epoch=epoch,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=play.name.topic, partitions=[partition])],
    )
    request_until_accepted(
        play,
        lambda: coordinator(play),
        requests.TXN_OFFSET_COMMIT,
        committing,
        lambda found: int(found.topics[0].partitions[0].error_code),
    )


def committed_results(play: Play) -> list[str]:
    """Return what a reader of committed records finds in the results: no markers and no aborted records."""
    content = b""
    aborted: set[tuple[int, int]] = set()
    while True:
        data = _fetch_results(play, _end_offset(content))
        aborted |= {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()}
        if not data.records:
            return _without_aborted(content, aborted)
        content += bytes(data.records)


def _fetch_results(play: Play, offset: int) -> Any:
    wanted = FetchPartition(partition=RESULTS.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=RESULTS.topic, partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=READ_COMMITTED, topics=[topic])
    answer = request_until_accepted(
        play, lambda: play.stage.leader(RESULTS), requests.FETCH, request, lambda found: found.error_code
    )
    return answer.responses[0].partitions[0]


def _end_offset(content: bytes) -> int:
    return max((batch.next_offset for batch in records.batches(content)), default=0)


def _without_aborted(content: bytes, aborted: set[tuple[int, int]]) -> list[str]:
    """Leave out aborted records: a producer's, from the first offset named up to its next marker."""
    found: list[str] = []
    dropped: set[int] = set()
    for batch in records.batches(content):
        dropped |= {number for number, first in aborted if number == batch.producer_id and first == batch.base_offset}
        if batch.is_control:
            dropped.discard(batch.producer_id)
        elif batch.producer_id not in dropped:
            found += [bytes(record.value or b"").decode() for record in records.records(content, batch)]
    return found


def work(play: Play, command: Command) -> None:
    """Process the next record, or all; `crash=between` crashes between the two halves, whatever their order."""
    if command.words not in ([], ["all"]):
        raise play.impossible(f"expected `work` or `work all`, not `{command.text}`.")
    if play.application.killed:
        raise play.impossible("the application is down; expected `recover` before.")
    semantics, crashes = _semantics(play, command), command.options.get("crash", "")
    if crashes not in ("", "between"):
        raise play.impossible(f"expected crash=between, not crash={crashes}.")
    found = read(play, play.leader(), play.application.position)
    if not found and not command.words:
        raise play.impossible("there is nothing to read; expected a committed record.")
    for offset, value in found if command.words else found[:1]:
        _process_record(play, offset, value, semantics, crashes=bool(crashes))
        if crashes:
            return


def _semantics(play: Play, command: Command) -> str:
    semantics = command.options.get("semantics", play.knobs.get("semantics", ""))
    if semantics not in SEMANTICS:
        raise play.impossible(f"expected semantics={'|'.join(SEMANTICS)}.")
    return semantics


def _process_record(play: Play, offset: int, value: str, semantics: str, *, crashes: bool) -> None:
    application = play.application
    if semantics == "exactly_once":
        run_transaction(play, value, offset + 1, end=not crashes)
        application.done = committed_results(play)
    else:
        if semantics == "at_least_once" or not crashes:
            application.done.append(value)
        if semantics == "at_most_once" or not crashes:
            _commit(play, offset + 1)
    application.position = offset + 1
    application.killed = crashes
    play.told.append(f"the application {'dies over' if crashes else 'has carried out'} {value}")


def recover(play: Play, command: Command) -> None:
    """Restart the application at its committed position.

    An open transaction of its last life is aborted first: that life is fenced.
    """
    application = play.application
    application.killed = False
    if _semantics(play, command) == "exactly_once":
        init_producer(play)
        application.done = committed_results(play)
    application.position = _committed(play)
    play.told.append(f"the application goes on from offset {application.position}")


def _commit(play: Play, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=play.name.topic, partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])
    request_until_accepted(play, lambda: coordinator(play), requests.OFFSET_COMMIT, request, _code)


def _committed(play: Play) -> int:
    topic = OffsetFetchRequestTopic(name=play.name.topic, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
    answer = request_until_accepted(play, lambda: coordinator(play), requests.OFFSET_FETCH, request, _code)
    return max(0, int(answer.topics[0].partitions[0].committed_offset))


def _code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code) if answer.topics else int(answer.error_code)


COMMANDS: dict[str, CommandEntry] = {
    "work": command_entry("work [all] [crash=between] [semantics=…]", work, 0, 1, "crash", "semantics"),
    "recover": command_entry("recover [semantics=…]", recover, 0, 0, "semantics"),
}
