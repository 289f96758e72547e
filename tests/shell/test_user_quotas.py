"""A user's quota slows down exactly that user: one who logs in with SCRAM, and one with a certificate."""

import pytest

from tests.shell.authority import Authority, connect, port_of
from tests.shell.logins import log_in
from tests.shell.test_sasl import WANTS, Wire, add_user
from tests.waiting import wait_for
from tidelog.testing import Cluster
from tidelog.wire.messages.cluster.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build

USERS = ("slow-scram", "fast-scram", "slow-tls", "fast-tls")
SLOW = ("slow-scram", "slow-tls")
RECORDS = build([Record(0, 1, b"k", b"x" * 10_000)])


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(authority):
    own = authority.options(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/")
    options = {**own, **WANTS, "listeners": f"{WANTS['listeners']},SSL://127.0.0.1:0"}
    with Cluster(brokers=1, options=options) as cluster:
        broker = cluster.brokers[0]
        cluster.create_topic("t")
        for user in ("slow-scram", "fast-scram"):
            add_user(broker, user, "secret")
        with Wire(broker.port) as wire:
            quota = OpData(key="producer_byte_rate", value=1.0)
            entries = [
                EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=[quota]) for user in SLOW
            ]
            assert not any(
                entry.error_code for entry in wire.ask(49, 1, AlterClientQuotasRequest(entries=entries)).entries
            )
            wait_for(lambda: len(wire.ask(48, 1, DescribeClientQuotasRequest()).entries) == len(SLOW), "the quotas")
        yield broker


class Secured(Wire):
    """A connection as this user."""

    def __init__(self, broker, authority, user):
        if user.endswith("tls"):
            self.sock = connect(authority, port_of(broker), authority.store(user, common_name=user))
        else:
            super().__init__(port_of(broker, "SASL_PLAINTEXT"))
            assert log_in(self, user, "secret").error_code == 0


@pytest.mark.parametrize("user", USERS)
def test_a_users_quota_is_that_users_alone(broker, authority, user):
    data = PartitionProduceData(index=0, records=RECORDS)
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    with Secured(broker, authority, user) as wire:
        answer = wire.ask(0, 9, request)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert (answer.throttle_time_ms > 0) == (user in SLOW)
