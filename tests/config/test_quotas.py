"""Client quotas: what may be set on whom, and where it stands in the tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import quotas
from tidelog.config.quotas import check_entity, check_value, entity_at, entity_path
from tidelog.errors import ApiError, ErrorCode

NAMES = st.one_of(st.none(), st.text(min_size=1, max_size=20))


@pytest.mark.parametrize(
    ("entity", "where"),
    [
        ({"user": "alice"}, "users/alice"),
        ({"user": None}, "users/<default>"),
        ({"client-id": "a b/c"}, "clients/a%20b%2Fc"),
        ({"client-id": "<default>"}, "clients/%3Cdefault%3E"),
        ({"client-id": "c", "user": "*~"}, "users/%2A%7E/clients/c"),
        ({"client-id": ".."}, "clients/%2E%2E"),
        ({"ip": "10.0.0.1"}, "ips/10.0.0.1"),
        ({"ip": None}, "ips/<default>"),
    ],
)
def test_places_are_those_of_kafka(entity, where):
    assert entity_path(entity) == where
    assert entity_at(where) == entity


@given(st.one_of(st.fixed_dictionaries({"user": NAMES}), st.fixed_dictionaries({"user": NAMES, "client-id": NAMES})))
def test_every_entity_has_a_place_of_its_own(entity):
    assert entity_at(entity_path(entity)) == entity
    assert all(part not in ("", ".", "..") for part in entity_path(entity).split("/"))


@pytest.mark.parametrize("where", ["topics/t", "brokers/1", "users", "clients", ""])
def test_nothing_else_has_quotas(where):
    assert entity_at(where) == {}


@pytest.mark.parametrize(
    "entity",
    [
        {},
        {"group": "g"},
        {"user": ""},
        {"client-id": ""},
        {"ip": "10.0.0.1", "user": "u"},
        {"ip": "300.1.1.1"},
        {"ip": "a b"},
    ],
)
def test_what_is_no_entity_is_refused(entity):
    with pytest.raises(ApiError) as refused:
        check_entity(entity)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("entity", [{"ip": "::1"}, {"ip": "broker.example"}, {"ip": None}])
def test_addresses_have_one_quota(entity):
    assert check_entity(entity) == quotas.IP_QUOTAS


@pytest.mark.parametrize(
    ("name", "value", "fine"),
    [
        ("producer_byte_rate", 1024.0, True),
        ("producer_byte_rate", 0.5, False),
        ("producer_byte_rate", 0.0, False),
        ("consumer_byte_rate", -1.0, False),
        ("consumer_byte_rate", 1e300, False),
        ("request_percentage", 0.5, True),
        ("controller_mutation_rate", 0.25, True),
        ("connection_creation_rate", 5.0, False),
        ("nonsense", 1.0, False),
    ],
)
def test_values_have_bounds(name, value, fine):
    if fine:
        check_value(quotas.CLIENT_QUOTAS, name, value)
    else:
        with pytest.raises(ApiError):
            check_value(quotas.CLIENT_QUOTAS, name, value)
