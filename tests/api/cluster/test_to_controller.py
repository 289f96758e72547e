"""Requests for the controller: handed to it here, forwarded by a client's listener, never forwarded twice."""

from importlib import import_module
from types import SimpleNamespace

import pytest

from tests.api.fake_context import context
from tidelog.api.cluster import describe_log_dirs
from tidelog.api.configs import incremental_alter_configs
from tidelog.api.context import PENDING
from tidelog.effects import Reply
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

REQUESTS = {
    "configs.alter_configs": AlterConfigsRequest,
    "configs.incremental_alter_configs": IncrementalAlterConfigsRequest,
}
MODULES = (
    "cluster.alter_partition",
    "cluster.controlled_shutdown",
    "topics.elect_leaders",
    "topics.create_topics",
    "topics.delete_topics",
    "topics.create_partitions",
    "configs.alter_configs",
    "configs.incremental_alter_configs",
)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("leading", "listener"), [(True, "PLAINTEXT"), (True, "REPLICATION"), (False, "REPLICATION")])
def test_the_controller_here_takes_it(module, leading, listener):
    given = context(listener=listener)
    given.broker.controller.leading = leading
    request = REQUESTS.get(module, object)()
    assert import_module(f"tidelog.api.{module}").handle(request, given) is PENDING
    assert given.broker.controller.handled == [(77, request)]
    assert given.effects == [Reply(77, "answered")]
    assert given.broker.forwarded == []


@pytest.mark.parametrize("module", MODULES)
def test_else_it_is_forwarded(module):
    given = context()
    request = REQUESTS.get(module, object)()
    assert import_module(f"tidelog.api.{module}").handle(request, given) is PENDING
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
    first, second, third = describe_log_dirs.handle(DescribeLogDirsRequest(topics=None), given).results
    assert (first.log_dir, first.error_code, first.total_bytes, first.usable_bytes) == ("/a", 0, 1000, 400)
    assert [(topic.name, topic.partitions[0].partition_size) for topic in first.topics] == [("t", 100), ("u", 7)]
    assert [partition.offset_lag for partition in second.topics[0].partitions] == [3]
    assert (third.log_dir, third.error_code) == ("/c", ErrorCode.KAFKA_STORAGE_ERROR)
    some = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[1])])
    assert [len(result.topics) for result in describe_log_dirs.handle(some, given).results] == [0, 1, 0]


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
    answer = incremental_alter_configs.handle(
        IncrementalAlterConfigsRequest(resources=wanted), context(listener=listener)
    )
    assert (answer is not PENDING) == refused
    if refused:
        assert [response.error_code for response in answer.responses] == [ErrorCode.INVALID_REQUEST]
