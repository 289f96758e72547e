"""Requests for the controller: handed to it here, forwarded by a client's listener, never forwarded twice."""

from types import SimpleNamespace

import pytest

from tests.api.fake_context import context, finished
from tidelog.api.cluster import describe_log_dirs
from tidelog.api.configs.alter_configs import incremental_alter_configs
from tidelog.api.context import PENDING
from tidelog.api.registry import APIS, handler
from tidelog.effects import Reply
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

REQUESTS = {"AlterConfigs": AlterConfigsRequest, "IncrementalAlterConfigs": IncrementalAlterConfigsRequest}
HANDLERS = {
    api.name: handler(api)
    for api in APIS.values()
    if api.name
    in {
        "AlterPartition",
        "ControlledShutdown",
        "ElectLeaders",
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        *REQUESTS,
    }
}


@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize(("leading", "listener"), [(True, "PLAINTEXT"), (True, "REPLICATION"), (False, "REPLICATION")])
def test_the_controller_here_takes_it(name, leading, listener):
    given = context(listener=listener)
    given.broker.controller.leading = leading
    request = REQUESTS.get(name, object)()
    assert HANDLERS[name](request, given) is PENDING
    assert given.broker.controller.handled == [(77, request)]
    assert given.effects == [Reply(77, "answered")]
    assert given.broker.forwarded == []


@pytest.mark.parametrize("name", HANDLERS)
def test_else_it_is_forwarded(name):
    given = context()
    request = REQUESTS.get(name, object)()
    assert HANDLERS[name](request, given) is PENDING
    assert given.broker.forwarded == [request]
    assert given.broker.controller.handled == []


def held(topic, index, size, end, high_watermark):
    log = SimpleNamespace(size=size, log_end_offset=end)
    return SimpleNamespace(name=TopicPartition(topic, index), log=log, high_watermark=high_watermark)


def test_log_folders_are_described():
    given = context(log_dirs="/a,/b,/c", version=5)
    given.broker.replicas.extend(
        [("/a", held("t", 0, 100, 10, 10)), ("/b", held("t", 1, 50, 5, 8)), ("/a", held("u", 0, 7, 1, 1))]
    )
    given.broker.replicas.failed = ("/c",)
    first, second, third = finished(describe_log_dirs.handle(DescribeLogDirsRequest(topics=None), given)).results
    assert (first.log_dir, first.error_code, first.total_bytes, first.usable_bytes) == ("/a", 0, 1000, 400)
    assert [(topic.name, topic.partitions[0].partition_size) for topic in first.topics] == [("t", 100), ("u", 7)]
    assert [partition.offset_lag for partition in second.topics[0].partitions] == [3]
    assert (third.log_dir, third.error_code) == ("/c", ErrorCode.KAFKA_STORAGE_ERROR)
    some = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[1])])
    assert [len(result.topics) for result in finished(describe_log_dirs.handle(some, given)).results] == [0, 1, 0]


@pytest.mark.parametrize(
    ("resources", "listener", "refused"),
    [
        ([(4, "1")], "PLAINTEXT", True),
        ([(4, "0")], "PLAINTEXT", False),
        ([(4, "")], "PLAINTEXT", False),
        ([(4, "1"), (2, "t")], "PLAINTEXT", False),
        ([(4, "1")], "REPLICATION", False),
        ([], "PLAINTEXT", False),
    ],
)
def test_options_of_a_broker_are_altered_at_that_broker(resources, listener, refused):
    wanted = [AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in resources]
    answer = incremental_alter_configs(IncrementalAlterConfigsRequest(resources=wanted), context(listener=listener))
    assert (answer is not PENDING) == refused
    if refused:
        assert [response.error_code for response in answer.responses] == [ErrorCode.INVALID_REQUEST]
