"""DescribeClientQuotas: which entities a filter matches, and which filters are refused."""

from types import SimpleNamespace

import pytest

from tests.api.fake_context import context, finished
from tidelog.api.cluster import describe_client_quotas
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.client_quotas import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, ANY = 0, 1, 2
THERE = [
    {"user": "u"},
    {"user": None},
    {"user": "u", "client-id": "c"},
    {"user": "u", "client-id": None},
    {"client-id": "c"},
    {"ip": "10.0.0.1"},
]


def ask(*components, strict=False):
    given = context(version=1)
    known = [*((entity, {"q": 1.0}) for entity in THERE), ({"user": "x"}, {}), None]
    given.broker.configs = SimpleNamespace(entities=lambda: range(len(known)), quota=known.__getitem__)
    parts = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return finished(describe_client_quotas.handle(DescribeClientQuotasRequest(components=parts, strict=strict), given))


def found(*components, strict=False):
    answer = ask(*components, strict=strict)
    assert answer.error_code == 0
    return [{part.entity_type: part.entity_name for part in entry.entity} for entry in answer.entries]


def test_every_entity_with_quotas_matches_an_empty_filter():
    assert found() == THERE


@pytest.mark.parametrize(
    ("components", "strict", "numbers"),
    [
        ([("user", EXACT, "u")], False, [0, 2, 3]),
        ([("user", EXACT, "u")], True, [0]),
        ([("user", DEFAULT, None)], False, [1]),
        ([("user", ANY, None)], True, [0, 1]),
        ([("user", ANY, None), ("client-id", DEFAULT, None)], True, [3]),
        ([("client-id", EXACT, "c")], False, [2, 4]),
        ([("ip", ANY, None)], True, [5]),
        ([("user", EXACT, "nobody")], False, []),
    ],
)
def test_a_filter_matches_each_component(components, strict, numbers):
    assert found(*components, strict=strict) == [THERE[number] for number in numbers]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_filter_is_refused(components, code):
    answer = ask(*components)
    assert (answer.error_code, answer.entries) == (code, None)
