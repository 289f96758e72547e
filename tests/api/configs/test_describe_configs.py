import pytest

from tests.api.fake_context import add_topic, context, finished, image
from tidelog.api.configs import describe_configs
from tidelog.errors import ErrorCode
from tidelog.wire.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)


def ask(kind, name, keys=None, overrides=None, **fields):
    found = image()
    add_topic(found, "t", 0)
    given = context(found, 4, log_retention_ms="86400000")
    given.broker.configs.overrides["t"] = overrides or {}
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = describe_configs.handle(DescribeConfigsRequest(resources=[resource], **fields), given).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def test_a_topics_options_say_where_they_come_from():
    result = ask(2, "t", overrides={"segment.bytes": "2000000"})
    options = {option.name: option for option in result.configs}
    assert (options["segment.bytes"].value, options["segment.bytes"].config_source) == ("2000000", 1)
    assert (options["retention.ms"].value, options["retention.ms"].config_source) == ("86400000", 4)
    assert options["cleanup.policy"].config_source == 5
    assert all(option.synonyms == [] and option.documentation is None for option in result.configs)


def test_synonyms_and_documentation_come_on_request():
    (option,) = ask(
        2,
        "t",
        ["segment.bytes"],
        {"segment.bytes": "2000000"},
        include_synonyms=True,
        include_documentation=True,
    ).configs
    assert [(each.name, each.source) for each in option.synonyms] == [("segment.bytes", 1), ("log.segment.bytes", 5)]
    assert option.documentation


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, "bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (4, "1", ErrorCode.INVALID_REQUEST),
        (4, "x", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (1, "t", ErrorCode.INVALID_REQUEST),
        (16, "metrics", ErrorCode.NONE),
    ],
)
def test_what_cannot_be_described(kind, name, code):
    result = ask(kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_a_broker_describes_its_loggers():
    levels = {option.name: (option.value, option.config_source) for option in ask(8, "0").configs}
    assert levels["root"] == levels["partition"] == ("INFO", 6)


def test_a_broker_describes_itself_and_the_cluster():
    assert {option.name for option in ask(4, "0").configs} >= {"log.retention.ms", "num.partitions"}
    assert ask(4, "").configs == []


def test_resources_are_listed_by_type():
    found = image((0, 1))
    add_topic(found, "t", 0)
    listed = finished(describe_configs.list_resources(ListConfigResourcesRequest(), context(found, 1))).config_resources
    assert [(each.resource_type, each.resource_name) for each in listed] == [
        (2, "t"),
        (4, "0"),
        (4, "1"),
        (8, "0"),
        (8, "1"),
    ]
    only = finished(
        describe_configs.list_resources(ListConfigResourcesRequest(resource_types=[2, 16]), context(found, 1))
    )
    assert [each.resource_name for each in only.config_resources] == ["t"]
    assert (
        finished(describe_configs.list_resources(ListConfigResourcesRequest(), context(found, 0))).config_resources
        == []
    )
    wrong = finished(describe_configs.list_resources(ListConfigResourcesRequest(resource_types=[3]), context(found, 1)))
    assert wrong.error_code == ErrorCode.UNSUPPORTED_VERSION
