"""Why a client waits: the last errors that it retries, in words for people."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition

ACKS_ALL = -1


class Trouble(NamedTuple):
    """An error that is retried, and since when (monotonic ms). `message` is the broker's."""

    since: int
    code: ErrorCode
    message: str = ""


class Troubles:
    """The last error of each partition, until something of it succeeds."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, Trouble] = {}

    def __repr__(self) -> str:
        return f"<Troubles of {sorted(map(str, self._found))}>"

    def note(self, partition: TopicPartition, code: ErrorCode, message: str | None, now_ms: int) -> None:
        known = self._found.get(partition)
        self._found[partition] = Trouble(now_ms if known is None else known.since, code, message or "")

    def clear(self, partition: TopicPartition) -> None:
        if self._found:
            self._found.pop(partition, None)

    def since(self, partition: TopicPartition) -> int | None:
        found = self._found.get(partition)
        return None if found is None else found.since

    def reason(self, cluster: Cluster, partition: TopicPartition, *, acks: int = 1) -> str:
        """Why nothing succeeds with this partition. A leader that owes an answer to `acks` -1 (all) may be waiting for
        its followers."""
        metadata, found = cluster.metadata, self._found.get(partition)
        topic = metadata.topics.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            return f"{partition}: {missing(cluster, partition.topic)}"
        leader = metadata.leader(partition)
        if leader is None or leader < 0:
            return f"{partition}: it has no leader"
        followers = [replica for replica in topic.partitions[partition.partition].in_sync if replica != leader]
        if acks == ACKS_ALL and followers and (found is None or found.code is ErrorCode.REQUEST_TIMED_OUT):
            others = ", ".join(map(str, followers))
            return f"{partition}: leader {leader} has not acknowledged it; acks=all also waits for in-sync {others}"
        if found is None or found.code in NO_ANSWER:
            return f"{partition}: leader {leader} does not answer"
        text = f": {found.message}" if found.message else ""
        return f"{partition}: leader {leader} answers {found.code.name}{text}"


NO_ANSWER = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)
"""What a client notes where a broker did not answer."""


def missing(cluster: Cluster, topic: str) -> str:
    """Why a topic, or a partition of it, is not known."""
    if not cluster.metadata.updates:
        return "no broker answers"
    known = cluster.metadata.topics.get(topic)
    if known is not None and known.error is not ErrorCode.NONE:
        return f"brokers answer {known.error.name}"
    return "it does not exist"


def lasting(since: Iterable[tuple[int, str]], now_ms: int, patience_ms: int) -> list[str]:
    """The reasons, of (since, reason), that have lasted at least `patience_ms`; each once."""
    return list(dict.fromkeys(reason for moment, reason in since if now_ms - moment >= patience_ms))
