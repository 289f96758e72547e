import pytest

from tests.api.fake_context import context
from tidelog.api.cluster import api_versions
from tidelog.api.registry import APIS, CONTROLLER_APIS
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.features import ApiVersionsRequest

BETWEEN_BROKERS = {4, 5, 6, 7, 56}
OURS = {10_000}
FOR_LOGINS = {17, 36, 38, 39, 40, 41, 51}
FOR_ACLS = {29, 30, 31}
FOR_FEATURES = {57}
FOR_QUORUM = {55, 80, 81}


def ask(
    version, listener="PLAINTEXT", name="kafka-python", software="3.0.12", *, sasl=False, authorizer=False, levels=None
):
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    where = context(version=version, listener=listener)
    where.broker.has_sasl, where.broker.has_authorizer = sasl, authorizer
    where.broker.has_features = levels is not None
    where.broker.image.features, where.broker.image.features_epoch = levels or {}, 3
    return api_versions.handle(request, where)


def test_clients_see_what_is_for_clients():
    keys = {api.api_key: (api.min_version, api.max_version) for api in ask(4).api_keys}
    assert keys.keys() == APIS.keys() - BETWEEN_BROKERS - OURS - FOR_LOGINS - FOR_ACLS - FOR_FEATURES - FOR_QUORUM
    assert keys[0] == (0, 13)  # Produce: librdkafka derives features from it (KAFKA-18659)
    assert keys[18] == (0, 4)


def test_brokers_see_what_is_for_brokers_too():
    hidden = OURS | FOR_LOGINS | FOR_ACLS | FOR_FEATURES | FOR_QUORUM
    assert {api.api_key for api in ask(4, "REPLICATION").api_keys} == APIS.keys() - hidden


def test_brokers_with_a_sasl_listener_list_what_logins_need():
    hidden = BETWEEN_BROKERS | OURS | FOR_FEATURES | FOR_QUORUM
    assert {api.api_key for api in ask(4, sasl=True).api_keys} == APIS.keys() - hidden


def test_brokers_with_an_authorizer_list_what_acls_need():
    assert {
        api.api_key for api in ask(4, authorizer=True).api_keys
    } == APIS.keys() - BETWEEN_BROKERS - OURS - FOR_LOGINS - FOR_FEATURES - FOR_QUORUM


def test_features_have_an_epoch():
    response = ask(4)
    assert response.finalized_features_epoch == 3
    fixed = {"group.version": 1, "metadata.version": 30, "transaction.version": 2}
    assert finalized(response) == fixed
    assert {feature.name for feature in response.supported_features} == {
        "group.version",
        "metadata.version",
        "transaction.version",
    }
    assert {feature.name for feature in ask(3).supported_features} == {"metadata.version"}


def finalized(response):
    return {feature.name: feature.max_version_level for feature in response.finalized_features}


def test_the_level_of_eligible_leader_replicas_is_the_clusters():
    name = "eligible.leader.replicas.version"
    on, off = ask(4, levels={name: 1}), ask(4, levels={name: 0})
    assert (finalized(on)[name], name in finalized(off)) == (1, False), "level 0 is not finalized"
    for response in (on, off):
        assert (name, 0, 1) in {(each.name, each.min_version, each.max_version) for each in response.supported_features}
        assert 57 in {api.api_key for api in response.api_keys}


@pytest.mark.parametrize("version", [5, 32767, -1])
def test_an_unknown_version_is_refused_with_those_that_exist(version):
    response = ask(version, name="", software="")
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-lib", "lib-", "li b", "li\u00f6b"])
def test_software_must_name_itself_properly(name):
    assert ask(3, name=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(3, software=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(2, name=name).error_code == 0


def test_brokers_of_a_quorum_list_its_apis_and_its_version():
    class Quorum:
        listeners = ("CONTROLLER",)
        kraft_version = 1

    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for listener, served in (("PLAINTEXT", APIS), ("CONTROLLER", CONTROLLER_APIS)):
        where = context(version=4, listener=listener)
        where.broker.quorum = Quorum()
        where.broker.has_sasl = where.broker.has_authorizer = False
        where.broker.has_features = True
        where.broker.image.features, where.broker.image.features_epoch = {}, 0
        response = api_versions.handle(request, where)
        assert {80, 81, 55} <= {api.api_key for api in response.api_keys} <= served.keys()
        assert finalized(response)["kraft.version"] == 1
        assert "kraft.version" in {feature.name for feature in response.supported_features}
    Quorum.kraft_version = 0
    assert "kraft.version" not in finalized(api_versions.handle(request, where))
