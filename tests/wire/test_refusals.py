"""The response to a request that is refused, for every API and version."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.message import fields
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.refusals import ENTRIES, ITSELF, refuse

CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def sample(cls):
    """A message with one entry in every list."""
    made = cls()
    for field in fields(cls):
        if field.kind.name == "array":
            element = field.element
            one = sample(element) if isinstance(element, type) else ("x" if element.name == "string" else 1)
            setattr(made, field.name, [one])
        elif field.kind.name == "string":
            setattr(made, field.name, "x")
    return made


def codes_of(answer):
    """Every code in the answer, at any depth."""
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield value
        for each in value if isinstance(value, list) else ():
            if hasattr(each, "__fields__"):
                yield from codes_of(each)


@pytest.mark.parametrize("key", sorted(SCHEMAS))
def test_a_refusal_has_the_code_and_can_be_sent_in_every_version(key):
    schema = SCHEMAS[key]
    request = sample(schema.request)
    response = refuse(request, CODE, "why")
    assert set(codes_of(response)) <= {CODE}
    if key not in (3, 18):  # Metadata and ApiVersions are open to everybody
        assert CODE in codes_of(response), "the client would take the refusal for a success"
    for version in range(schema.min_version, schema.max_version + 1):
        parts = codec.encode_response(key, version, 7, response)
        assert sum(len(part) for part in parts) > 4


@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_entries_name_fields_that_exist(key):
    def check(entries, request, response):
        requested = request
        for name in entries.requested.split("."):
            requested = next(field.element for field in fields(requested) if field.name == name)
        answer = next(field.element for field in fields(response) if field.name == entries.answers)
        known = {field.name for field in fields(answer)}
        assert {theirs for _, theirs in entries.named} | {name for name, _ in entries.fixed} <= known
        for ours, _ in entries.named:
            assert ours == ITSELF or ours in {field.name for field in fields(requested)}
        if entries.inner is not None:
            check(entries.inner, requested, answer)

    for entries in ENTRIES[key]:
        check(entries, SCHEMAS[key].request, SCHEMAS[key].response)
