"""The voters of a metadata quorum: those that brokers report (Tidelog), and how far each of them is, as the leader
describes it (Tidelog, and Kafka since version 4)."""

from collections.abc import Iterator

from tidelog.errors import ErrorCode
from tidelog.explain.core.evidence import Evidence, VoterLag
from tidelog.explain.gathering.asking import Answer, Ask, Pause, Steps, top_error
from tidelog.wire.messages.cluster.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

TOPIC = "__cluster_metadata"
FETCH_MS = 1_000
"""Time in which every voter that runs fetches from a new leader."""


def add_quorum(evidence: Evidence) -> Steps[None]:
    reported = (seen.facts["quorum"]["voters"] for seen in evidence.brokers.values() if "quorum" in seen.facts)
    evidence.voters = sorted(max(reported, key=len, default=()))
    lags = yield from _voter_lags(evidence)
    if any(lag.behind_ms is None for lag in lags):  # the leader may be new
        yield Pause(FETCH_MS)
        lags = yield from _voter_lags(evidence)
    evidence.voter_lags = lags


def _voter_lags(evidence: Evidence) -> Steps[list[VoterLag]]:
    """Of the voters besides the leader; none without an answer of the leader."""
    partition = PartitionData(partition_index=0)
    (answer,) = yield [Ask(DescribeQuorumRequest(topics=[TopicData(topic_name=TOPIC, partitions=[partition])]))]
    if top_error(answer) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        evidence.unanswered.append(f"The metadata quorum may not be described ({top_error(answer).name}).")
    return list(_described(evidence, answer)) if answer.response is not None and not top_error(answer) else []


def _described(evidence: Evidence, answer: Answer) -> Iterator[VoterLag]:
    for topic in answer.response.topics:
        for partition in topic.partitions:
            voters = {each.replica_id: each for each in partition.current_voters}
            leader = voters.pop(partition.leader_id, None)
            if partition.error_code or leader is None:
                continue
            evidence.quorum_leader = partition.leader_id
            for voter, each in voters.items():
                now, then = leader.last_caught_up_timestamp, each.last_caught_up_timestamp
                yield VoterLag(voter, leader.log_end_offset - each.log_end_offset, now - then if then >= 0 else None)
