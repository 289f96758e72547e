"""Transactions that have been open for long, from the leaders' logs and from the coordinators."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from tidelog.client.admin import Coordinator
from tidelog.errors import ErrorCode
from tidelog.explain.core.evidence import Evidence, OpenTransaction
from tidelog.explain.gathering.asking import Answer, Ask, Steps, ask_all, by_leader, refused, top_error
from tidelog.model import TopicPartition
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducerState,
    TopicRequest,
)

LONG_TRANSACTION_MS = 60_000
"""The time since the last record after which a transaction is reported, in milliseconds."""
TRANSACTION_COORDINATOR = 1
"""The key type of FindCoordinator for transaction coordinators."""


def add_transactions(evidence: Evidence) -> Steps[None]:
    led = by_leader((name, seen.leader) for name, seen in evidence.partitions.items())
    answers = yield from ask_all(
        {leader: Ask(_producers_of(led[leader]), leader) for leader in led if evidence.is_alive(leader)}
    )
    evidence.unanswered += chain.from_iterable(_unread(leader, answer) for leader, answer in answers.items())
    found = [
        (name, producer, age)
        for name, producer in _producers(answers.values())
        if producer.current_txn_start_offset >= 0
        and (age := evidence.now_ms - producer.last_timestamp) > LONG_TRANSACTION_MS
    ]
    known = yield from _coordinated(evidence, {producer.producer_id for _, producer, _ in found})
    if known is None:
        evidence.unanswered.append("Some transaction coordinators did not answer, so hanging transactions are unknown.")
        return
    for name, producer, age in found:
        open_transaction = OpenTransaction(name, producer, age, known.get((producer.producer_id, name)))
        evidence.partitions[name].transactions.append(open_transaction)


def _producers_of(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
    )


def _producers(answers: Iterable[Answer]) -> Iterator[tuple[TopicPartition, ProducerState]]:
    for answer in answers:
        for topic in answer.response.topics if answer.response is not None else ():
            for each in topic.partitions:
                yield from ((TopicPartition(topic.name, each.partition_index), one) for one in each.active_producers)


def _unread(leader: int, answer: Answer) -> Iterator[str]:
    yield from refused("DescribeProducers", leader, top_error(answer))
    for topic in answer.response.topics if answer.response is not None else ():
        if any(each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in topic.partitions):
            yield f"Open transactions of topic {topic.name} may not be read (TOPIC_AUTHORIZATION_FAILED)."


def _coordinated(evidence: Evidence, producer_ids: set[int]) -> Steps[Mapping[tuple[int, TopicPartition], str] | None]:
    """The transactional IDs of the transactions that coordinators will end, by producer and partition; None if one of
    them cannot be asked, because it may know the transaction."""
    if not producer_ids:
        return {}
    alive = [broker for broker, seen in evidence.brokers.items() if seen.answers]
    listed = yield from ask_all(
        {broker: Ask(ListTransactionsRequest(producer_id_filters=sorted(producer_ids)), broker) for broker in alive}
    )
    if any(answer.response is None or answer.response.error_code for answer in listed.values()):
        return None
    names = sorted({each.transactional_id for answer in listed.values() for each in answer.response.transaction_states})
    described = yield from ask_all(
        {
            name: Ask(DescribeTransactionsRequest(transactional_ids=[name]), Coordinator(name, TRANSACTION_COORDINATOR))
            for name in names
        }
    )
    if any(answer.response is None for answer in described.values()):
        return None
    states = [state for answer in described.values() for state in answer.response.transaction_states]
    return {
        (state.producer_id, TopicPartition(topic.topic, index)): state.transactional_id
        for state in states
        if not state.error_code
        for topic in state.topics
        for index in topic.partitions
    }
