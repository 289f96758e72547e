"""The admin: a request finds who must answer it, however roles move, and comes back in time."""

from tests.client.ground import BOOTSTRAP, FIND_COORDINATOR, Ground
from tidelog.client.admin import ANY, CONTROLLER, Admin, Coordinator, Leader, error_codes
from tidelog.client.options import AdminOptions
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.find_coordinator import Coordinator as FoundCoordinator
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorResponse
from tidelog.wire.messages.groups.group_admin import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CREATE_TOPICS, LIST_GROUPS, DESCRIBE_GROUPS, DELETE_RECORDS = 19, 16, 15, 21


class Story:
    """An admin on a ground; `answers` are what brokers answer by API key, given (broker, request)."""

    def __init__(self, **options):
        self.ground = Ground()
        self.admin = self.ground.start(Admin(BOOTSTRAP, AdminOptions(**options), self.ground.entropy))

    def serve(self, key, answer):
        self.ground.handlers[key] = lambda broker, request, reply: reply(answer(broker, request))

    def ask(self, request, target, **named):
        ticket = self.ground.call(self.admin.ask, request, target, self.ground.now, **named)
        results = []
        assert self.ground.run_until(lambda: results.extend(self.admin.take_results()) or results)
        (done,) = results
        assert done.ticket == ticket
        return done

    def asked(self, key):
        return [broker for broker, asked_key, _, _ in self.ground.asked if asked_key == key]


def created(broker, request, controller):
    code = ErrorCode.NONE if broker == controller else ErrorCode.NOT_CONTROLLER
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    )


NEW_TOPIC = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])


def test_the_controller_is_asked_and_followed_when_it_moves():
    story = Story()
    story.ground.controller = 1
    story.serve(CREATE_TOPICS, lambda broker, request: created(broker, request, story.ground.controller))
    assert story.ask(NEW_TOPIC, CONTROLLER).value.topics[0].error_code == 0
    story.ground.controller = 2
    assert story.ask(NEW_TOPIC, CONTROLLER).value.topics[0].error_code == 0
    assert story.asked(CREATE_TOPICS) == [1, 1, 2]


def test_the_last_answer_counts_when_nobody_else_answers_in_time():
    story = Story(default_api_timeout_ms=3_000)
    story.serve(CREATE_TOPICS, lambda broker, request: created(broker, request, controller=-1))
    assert story.ask(NEW_TOPIC, CONTROLLER).value.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert 3_000 <= story.ground.now.mono < 3_500


def test_a_refusal_is_an_answer():
    story = Story()
    refused = CreateTopicsResponse(topics=[CreatableTopicResult(name="new", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)])
    story.serve(CREATE_TOPICS, lambda _broker, _request: refused)
    assert story.ask(NEW_TOPIC, CONTROLLER).value == refused
    assert len(story.asked(CREATE_TOPICS)) == 1


def test_a_named_broker_answers_for_itself():
    story = Story()
    story.serve(LIST_GROUPS, lambda broker, _request: ListGroupsResponse(groups=[ListedGroup(group_id=f"of {broker}")]))
    assert story.ask(ListGroupsRequest(), 2).value.groups[0].group_id == "of 2"
    assert story.ask(ListGroupsRequest(), ANY).error is ErrorCode.NONE


def test_a_broker_that_is_not_there_fails_in_time():
    story = Story(default_api_timeout_ms=2_000)
    done = story.ask(ListGroupsRequest(), 9)
    assert done.error is not ErrorCode.NONE
    assert story.ground.now.mono < 2_500


def test_a_coordinator_is_looked_up_once_and_again_when_it_moves():
    story = Story()

    def describe(broker, request):
        code = ErrorCode.NONE if broker == story.ground.coordinator else ErrorCode.NOT_COORDINATOR
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id=request.groups[0], error_code=code)])

    story.serve(DESCRIBE_GROUPS, describe)
    request = DescribeGroupsRequest(groups=["g"])
    for _ in range(2):
        assert story.ask(request, Coordinator("g")).value.groups[0].error_code == 0
    assert len(story.asked(FIND_COORDINATOR)) == 1
    story.ground.coordinator = 2
    assert story.ask(request, Coordinator("g")).value.groups[0].error_code == 0
    assert story.asked(DESCRIBE_GROUPS) == [0, 0, 0, 2]


def test_a_coordinator_that_is_not_there_is_looked_up_again_after_a_pause():
    """Also where metadata came meanwhile."""
    story = Story(default_api_timeout_ms=5_000)
    story.ground.coordinator = -1
    story.serve(
        FIND_COORDINATOR,
        lambda _broker, _request: FindCoordinatorResponse(
            coordinators=[FoundCoordinator(key="g", node_id=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        ),
    )
    done = story.ask(DescribeGroupsRequest(groups=["g"]), Coordinator("g"))
    assert done.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(story.asked(FIND_COORDINATOR)) < 30


def test_a_leader_is_asked_and_followed_when_it_moves():
    story = Story()

    def delete(broker, _request):
        code = ErrorCode.NONE if broker == story.ground.leaders["t", 1][0] else ErrorCode.NOT_LEADER_OR_FOLLOWER
        partitions = [DeleteRecordsPartitionResult(partition_index=1, low_watermark=5, error_code=code)]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=partitions)])

    story.serve(DELETE_RECORDS, delete)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=1, offset=5)])]
    )
    for leader in (1, 2):
        story.ground.leaders["t", 1] = (leader, leader)
        assert story.ask(request, Leader("t", 1)).value.topics[0].partitions[0].error_code == 0
    assert story.asked(DELETE_RECORDS) == [1, 1, 2]


def test_a_lost_answer_is_asked_for_again_unless_that_is_forbidden():
    story = Story()
    story.serve(LIST_GROUPS, lambda _broker, _request: ListGroupsResponse())
    assert story.ask(ListGroupsRequest(), ANY).error is ErrorCode.NONE
    losses = iter([True])
    story.ground.drops_answer = lambda: next(losses, False)
    assert story.ask(ListGroupsRequest(), ANY).error is ErrorCode.NONE
    losses = iter([True])
    assert story.ask(ListGroupsRequest(), ANY, retries=False).error is ErrorCode.NETWORK_EXCEPTION


def test_what_a_broker_does_not_speak_is_reported_at_once():
    story = Story()
    del story.ground.ranges[LIST_GROUPS]
    assert story.ask(ListGroupsRequest(), ANY).error is ErrorCode.UNSUPPORTED_VERSION
    assert story.ground.now.mono < 100


def test_a_request_can_be_bound_to_older_versions():
    story = Story()
    story.serve(LIST_GROUPS, lambda _broker, _request: ListGroupsResponse())
    story.ask(ListGroupsRequest(), ANY, newest=2)
    assert [version for _, key, version, _ in story.ground.asked if key == LIST_GROUPS] == [2]


def test_a_cluster_that_is_away_is_found_when_it_is_back():
    story = Story()
    story.serve(LIST_GROUPS, lambda _broker, _request: ListGroupsResponse())
    assert story.ask(ListGroupsRequest(), ANY).error is ErrorCode.NONE
    for broker in (0, 1):
        story.ground.kill(broker)
    story.ground.run(1_000)
    assert story.ask(ListGroupsRequest(), ANY).error is ErrorCode.NONE


def test_error_codes_are_found_at_any_depth():
    response = created(0, NEW_TOPIC, controller=1)
    assert list(error_codes(response)) == [ErrorCode.NOT_CONTROLLER]
