"""What cannot be asked is reported as not known, and never taken for health: gatherers on hand-made answers.

Each test takes one answer from a healthy cluster and replaces it with the error that an ACL, a coordinator that loads
or a broker that stands still causes.
"""

import json

import pytest

from tidelog.errors import ErrorCode
from tidelog.explain.core.diagnosis import diagnose
from tidelog.explain.core.finding import CLUSTER
from tidelog.explain.gathering.asking import Answer, Pause
from tidelog.explain.gathering.evidence import gather
from tidelog.explain.gathering.groups import groups_in, watch_groups
from tidelog.explain.gathering.reports import MAX_PAGES
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest, BrokerReportResponse, ReportedEvent
from tidelog.wire.messages.cluster.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)
from tidelog.wire.messages.cluster.log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tidelog.wire.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.wire.messages.groups.committed_offsets import OffsetFetchRequest, OffsetFetchResponse
from tidelog.wire.messages.groups.group_admin import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.records.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.topics.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    PartitionResponse,
    TopicResponse,
)

CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Cluster:
    """One broker that leads `t-0` and coordinates the group `g`. `answers` has by request type what it answers: a
    response, or the error with which the request fails."""

    def __init__(self):
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=0, leader_epoch=1, replica_nodes=[0], isr_nodes=[0]
        )
        listed = ListOffsetsTopicResponse(
            name="t", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=9)]
        )
        described = DescribedGroup(group_id="g", group_state="Empty", protocol_type="consumer")
        self.answers = {
            MetadataRequest: MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=0, host="h", port=1)],
                controller_id=0,
                topics=[MetadataResponseTopic(name="t", partitions=[partition])],
            ),
            DescribeLogDirsRequest: DescribeLogDirsResponse(),
            ListGroupsRequest: ListGroupsResponse(groups=[ListedGroup(group_id="g", protocol_type="consumer")]),
            ListTransactionsRequest: ListTransactionsResponse(),
            ListOffsetsRequest: ListOffsetsResponse(topics=[listed]),
            BrokerReportRequest: ErrorCode.UNSUPPORTED_VERSION,
            DescribeQuorumRequest: ErrorCode.UNSUPPORTED_VERSION,
            ListPartitionReassignmentsRequest: ListPartitionReassignmentsResponse(),
            DescribeConfigsRequest: DescribeConfigsResponse(),
            DescribeProducersRequest: DescribeProducersResponse(),
            DescribeGroupsRequest: DescribeGroupsResponse(groups=[described]),
            OffsetFetchRequest: OffsetFetchResponse(),
        }
        self.asked = []

    def run(self, steps):
        try:
            turn = next(steps)
            while True:
                turn = steps.send(() if isinstance(turn, Pause) else [self._answer(each.request) for each in turn])
        except StopIteration as done:
            return done.value

    def _answer(self, request):
        self.asked.append(type(request))
        found = self.answers[type(request)]
        return Answer(error=found) if isinstance(found, ErrorCode) else Answer(found, began_ms=1, ended_ms=1)

    def explained(self):
        """(problems, what is not known) of the whole cluster."""
        evidence, look = self.run(gather(lambda _: True, watch_ms=0, patience_ms=0))
        evidence.unanswered += look.unlisted
        evidence.groups = self.run(watch_groups(evidence, groups_in(look), watch_ms=0, patience_ms=0))
        return [each.kind for each in diagnose(evidence, CLUSTER) if each.is_problem], evidence.unanswered


def test_nothing_is_unknown_of_a_healthy_cluster():
    assert Cluster().explained() == ([], [])


def denied_options(kind, name):
    result = DescribeConfigsResult(error_code=CODE, resource_type=kind, resource_name=name)
    return DescribeConfigsResponse(results=[result])


def denied_producers():
    partition = PartitionResponse(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[partition])])


def loading_group():
    group = DescribedGroup(group_id="g", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return DescribeGroupsResponse(groups=[group])


@pytest.mark.parametrize(
    ("request_type", "answer", "said"),
    [
        (BrokerReportRequest, CODE, "Broker 0 answers BrokerReport with CLUSTER_AUTHORIZATION_FAILED."),
        (BrokerReportRequest, ErrorCode.REQUEST_TIMED_OUT, "Broker 0 answers BrokerReport with REQUEST_TIMED_OUT."),
        (DescribeLogDirsRequest, CODE, "Broker 0 answers DescribeLogDirs with CLUSTER_AUTHORIZATION_FAILED."),
        (DescribeLogDirsRequest, DescribeLogDirsResponse(error_code=CODE), "Broker 0 answers DescribeLogDirs with"),
        (ListGroupsRequest, ErrorCode.REQUEST_TIMED_OUT, "Broker 0 answers ListGroups with REQUEST_TIMED_OUT."),
        (ListGroupsRequest, ListGroupsResponse(error_code=CODE), "Broker 0 answers ListGroups with CLUSTER_"),
        (
            DescribeConfigsRequest,
            CODE,
            "Options of topics could not be read (CLUSTER_AUTHORIZATION_FAILED): min.insync.replicas",
        ),
        (DescribeConfigsRequest, denied_options(2, "t"), "The options of topic t may not be read (CLUSTER_"),
        (DescribeQuorumRequest, CODE, "The metadata quorum may not be described (CLUSTER_AUTHORIZATION_FAILED)."),
        (DescribeProducersRequest, CODE, "Broker 0 answers DescribeProducers with CLUSTER_AUTHORIZATION_FAILED."),
        (DescribeProducersRequest, denied_producers(), "Open transactions of topic t may not be read (TOPIC_"),
        (
            DescribeGroupsRequest,
            ErrorCode.REQUEST_TIMED_OUT,
            "Group g is not known: its coordinator, broker 0, answers",
        ),
        (DescribeGroupsRequest, loading_group(), "answers COORDINATOR_LOAD_IN_PROGRESS."),
    ],
)
def test_what_is_not_answered_is_not_known(request_type, answer, said):
    cluster = Cluster()
    cluster.answers[request_type] = answer
    _, unanswered = cluster.explained()
    assert any(said in each for each in unanswered), unanswered


def test_an_option_of_a_topic_that_is_deleted_meanwhile_is_no_matter():
    cluster = Cluster()
    gone = DescribeConfigsResult(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, resource_name="t")
    cluster.answers[DescribeConfigsRequest] = DescribeConfigsResponse(results=[gone])
    assert cluster.explained() == ([], [])


def test_codes_of_a_newer_kafka_are_no_crash():
    cluster = Cluster()
    folder = DescribeLogDirsResult(log_dir="/d", error_code=31_000)
    cluster.answers[DescribeLogDirsRequest] = DescribeLogDirsResponse(results=[folder])
    problems, _ = cluster.explained()
    assert "broker.folder-offline" in problems


def described_quorum(*caught_up):
    """Broker 0 leads; the other voters had all that it had at these times."""
    states = [ReplicaState(replica_id=0, log_end_offset=9, last_caught_up_timestamp=90_000)]
    states += [
        ReplicaState(replica_id=voter, log_end_offset=5, last_caught_up_timestamp=at)
        for voter, at in enumerate(caught_up, 1)
    ]
    partition = PartitionDataResponse(leader_id=0, current_voters=states)
    return DescribeQuorumResponse(topics=[TopicDataResponse(partitions=[partition])])


def test_voters_are_asked_for_again_if_one_has_not_fetched_yet():
    cluster = Cluster()
    cluster.answers[DescribeQuorumRequest] = described_quorum(90_000, 85_001)
    assert cluster.explained() == ([], [])
    assert cluster.asked.count(DescribeQuorumRequest) == 1
    cluster.answers[DescribeQuorumRequest] = described_quorum(90_000, -1)
    assert cluster.explained() == (["cluster.voter-behind"], [])
    assert cluster.asked.count(DescribeQuorumRequest) == 3


def test_a_broker_that_the_controller_refuses_is_named_though_metadata_has_it_not():
    cluster = Cluster()
    facts = {"controller": {"leading": True, "refused": {"7": "its version is too old"}}}
    cluster.answers[BrokerReportRequest] = BrokerReportResponse(broker_id=0, facts=json.dumps(facts))
    assert cluster.explained() == (["broker.refused"], [])


def test_a_broker_that_always_has_more_events_is_not_asked_for_ever():
    cluster = Cluster()
    event = ReportedEvent(number=1, wall_ms=1, kind="x", level="info", fields=json.dumps({}))
    cluster.answers[BrokerReportRequest] = BrokerReportResponse(broker_id=0, facts="{}", events=[event])
    cluster.explained()
    assert cluster.asked.count(BrokerReportRequest) == MAX_PAGES + 1
