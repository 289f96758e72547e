"""Deletion of topics: mark, stop every replica, remove the nodes.

The mark is `/admin/delete_topics/T`; from then on the topic is gone for clients. Replicas on live brokers are deleted
at once, those on dead brokers when they return: until then the topic stays marked, its name is taken, its nodes stay.
A new controller finds the mark and continues. A topic under reassignment waits for its end.

A request to delete is answered when all is done, or when only dead brokers hold it up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tidelog.controller import tree
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import CHUNK, Group, Slices, Steps, chunks, submit
from tidelog.controller.pushes import ROLES_A_COUNT, Answered
from tidelog.controller.state import Partition, Topic
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_ID, id_text
from tidelog.ports import Children, Create, Delete
from tidelog.wire.messages.topics.topic_changes import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

NODES_BESIDE_PARTITIONS = 4


class Deletions:
    """Topics marked for deletion: by topic, the replicas that have not confirmed, by broker; and the topics that wait
    for the end of a reassignment."""

    def __init__(self) -> None:
        self.remaining: dict[Topic, dict[int, set[Partition]]] = {}
        self.moving: dict[Topic, None] = {}
        self._gone: list[Topic] = []
        """Topics whose last replica has gone since `ready` was called; it is called for every input."""

    def __repr__(self) -> str:
        waits = {topic.name: sorted(brokers) for topic, brokers in self.remaining.items()}
        return f"Deletions({waits}, moving: {[topic.name for topic in self.moving]})"

    def clear(self) -> None:
        self.remaining.clear()
        self.moving.clear()
        self._gone.clear()

    def begin(self, term: ControllerTerm, topic: Topic) -> Steps[None]:
        """Its mark is committed: remove it from metadata, and stop its replicas on live brokers. A topic under
        reassignment stays until that ends."""
        topic.marked = True
        if topic.is_moving:
            self.moving[topic] = None
            return
        topic.deleted = True
        replicas: dict[int, set[Partition]] = {}
        slices = Slices()
        for partition in topic.partitions.values():
            yield from slices.count()
            partition.deleted = True
            partition.touch()
            for broker in partition.replicas:
                replicas.setdefault(broker, set()).add(partition)
        self.remaining[topic] = replicas
        if not replicas:
            self._gone.append(topic)
        term.pushes.push_metadata(topic.partitions.values())
        for broker, stopped in replicas.items():
            yield from slices.count(len(stopped) // ROLES_A_COUNT)
            self._stop(term, topic, broker)

    def moved(self, term: ControllerTerm) -> Steps[None]:
        """Reassignments ended: what waited for them begins."""
        for topic in [topic for topic in self.moving if not topic.is_moving]:
            del self.moving[topic]
            yield from self.begin(term, topic)

    def _stop(self, term: ControllerTerm, topic: Topic, broker: int) -> None:
        term.pushes.push_deletion(broker, sorted(self.remaining[topic][broker], key=lambda p: p.index))

    def brokers_came(self, term: ControllerTerm, brokers: Iterable[int]) -> None:
        """They may still have the replicas: push the deletions again."""
        for broker in brokers:
            for topic, replicas in self.remaining.items():
                if broker in replicas:
                    self._stop(term, topic, broker)

    def answered(self, answered: Answered) -> None:
        """A broker deleted these replicas, but for those whose log folder failed: they wait for its next life."""
        for partition in answered.partitions:
            replicas = self.remaining.get(partition.topic, {})
            waiting = replicas.get(answered.broker)
            if waiting is None or answered.errors.get(partition.name) == ErrorCode.KAFKA_STORAGE_ERROR:
                continue
            waiting.discard(partition)
            if not waiting:
                del replicas[answered.broker]
                if not replicas:
                    self._gone.append(partition.topic)

    def give_up(self, broker: int) -> None:
        """The broker will not return: treat its replicas as deleted."""
        for topic, replicas in self.remaining.items():
            if replicas.pop(broker, None) is not None and not replicas:
                self._gone.append(topic)

    def ready(self) -> list[Topic]:
        """Topics whose every replica is gone; they are handed out once."""
        done, self._gone = self._gone, []
        for topic in done:
            del self.remaining[topic]
        return done

    def held_up(self, topic: Topic, live: Iterable[int]) -> bool:
        """Whether only brokers that are dead, or lost the log folder, still hold replicas of it."""
        replicas = self.remaining.get(topic)
        return replicas is not None and bool(replicas) and replicas.keys().isdisjoint(live)


def delete_topics(
    term: ControllerTerm, deletions: Deletions, request: DeleteTopicsRequest
) -> Steps[DeleteTopicsResponse]:
    """Mark the topics. (The answer waits until the pushes that follow have settled.)"""
    if not term.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED
        requested = [(t.name, t.topic_id) for t in request.topics] or [(name, NO_ID) for name in request.topic_names]
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=name, topic_id=id_, error_code=code) for name, id_ in requested]
        )
    slices = Slices()
    results, topics = yield from resolve(term, request, slices)
    for chunk in chunks(topics):
        yield [Create(tree.delete_path(topic.name)) for topic in chunk]
        for topic in chunk:
            yield from slices.count()
            term.report("topic.deleting", topic=topic.name, topic_id=id_text(topic.id))
            yield from deletions.begin(term, topic)
    return DeleteTopicsResponse(responses=results)


def resolve(
    term: ControllerTerm, request: DeleteTopicsRequest, slices: Slices
) -> Steps[tuple[list[DeletableTopicResult], list[Topic]]]:
    """Each name or id once; the answers of all, and the topics that go."""
    results: list[DeletableTopicResult] = []
    topics: dict[Topic, DeletableTopicResult] = {}
    requested = [(t.name, t.topic_id) for t in request.topics] + [(name, NO_ID) for name in request.topic_names]
    counted = Counter(requested)
    for (name, topic_id), times in counted.items():
        yield from slices.count()
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        results.append(result)
        try:
            topic = _find(term, name, topic_id, times)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        result.name, result.topic_id = topic.name, topic.id
        if (other := topics.pop(topic, None)) is None:
            topics[topic] = result
            continue
        results.remove(other)
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = "The name and the ID of one topic were given."
    return results, list(topics)


def _find(term: ControllerTerm, name: str | None, topic_id: bytes, times: int) -> Topic:
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is None and topic_id == NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither a topic name nor an ID was given.")
    if name is not None and topic_id != NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Both a topic name and an ID were given; expected one of them.")
    topic = term.cluster.topic_ids.get(topic_id) if name is None else term.cluster.topics.get(name)
    if topic is None or topic.marked:
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def remove_topics(term: ControllerTerm, topics: Sequence[Topic]) -> Steps[None]:
    """Every replica is gone: so go the nodes, leaves first, the mark last; of as many topics together as fit into one
    multi, because every broker hears of each."""
    for batch in _batches(topics):
        # If the image was read anew, it knows the topic by another object.
        gone = [topic for topic in batch if term.cluster.topics.get(topic.name) is topic]
        yield from submit(group for topic in gone for group in _nodes(term, topic))
        for topic in gone:
            term.cluster.remove_topic(topic)
            term.report("topic.deleted", topic=topic.name, topic_id=id_text(topic.id))


def _batches(topics: Iterable[Topic]) -> list[list[Topic]]:
    batches: list[list[Topic]] = []
    room = 0
    for topic in topics:
        size = 2 * len(topic.partitions) + NODES_BESIDE_PARTITIONS
        if size > room or not batches:
            batches.append([])
            room = CHUNK
        batches[-1].append(topic)
        room -= size
    return batches


def _nodes(term: ControllerTerm, topic: Topic) -> Iterable[Group]:
    for index in topic.partitions:
        yield [Delete(tree.state_path(topic.name, index)), Delete(tree.partition_path(topic.name, index))]
    tail: Group = [Delete(tree.partitions_path(topic.name)), Delete(tree.topic_path(topic.name))]
    if f"topics/{topic.name}" in term.cluster.config_versions:
        tail.append(Delete(tree.topic_config_path(topic.name)))
    yield [*tail, Delete(tree.delete_path(topic.name))]


def delete_as_written(term: ControllerTerm, deletions: Deletions) -> Steps[None]:
    """A node `/admin/delete_topics/T` requests the deletion of T. Begin the deletions that operators requested; remove
    marks of unknown topics, and all of them if `delete.topic.enable` is false. This controller knows its own marks."""
    (marks,) = yield [Children(tree.DELETE_TOPICS)]
    void: list[Delete] = []
    slices = Slices()
    for name in marks:
        yield from slices.count()
        topic = term.cluster.topics.get(name)
        if topic is not None and topic.marked:
            continue
        if topic is None or not term.config.delete_topic_enable:
            void.append(Delete(tree.delete_path(name)))
            continue
        term.report("topic.deleting", topic=topic.name, topic_id=id_text(topic.id))
        yield from deletions.begin(term, topic)
    yield from submit([each] for each in void)
