"""Delegation tokens in the tree: created, renewed, expired, swept, and known to the next controller."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.errors import ErrorCode
from tidelog.ports import Delete
from tidelog.security.delegation_tokens import Principal, hmac_of
from tidelog.wire.messages.security.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
def cluster():
    return FakeCluster(brokers=2, delegation_token_secret_key="s").start()


def create(cluster, requester=ALICE, lifetime=-1, renewers=("bob",), **owner):
    request = CreateDelegationTokenRequest(max_lifetime_ms=lifetime, requester=requester, **owner)
    request.renewers = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    return cluster.ask(request)


def renew(cluster, hmac, requester=ALICE, period=-1):
    answer = cluster.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period, requester=requester))
    return answer.error_code or answer.expiry_timestamp_ms - cluster.now.wall


def expire(cluster, hmac, requester=ALICE, period=-1):
    answer = cluster.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period, requester=requester))
    return answer.error_code or answer.expiry_timestamp_ms - cluster.now.wall


def let_pass(cluster, ms):
    end = cluster.now.mono + ms
    while cluster.run_timers(end):
        cluster.settle()
    cluster.advance(max(0, end - cluster.now.mono))


def stored(cluster):
    found = {path for path in cluster.tree.nodes if path.startswith(tree.DELEGATION_TOKENS + "/")}
    return {
        path.rpartition("/")[2]: tree.readable_token(path.rpartition("/")[2], cluster.tree.nodes[path].data)
        for path in found
    }


def test_without_a_secret_there_are_no_tokens_and_no_nodes():
    cluster = FakeCluster(brokers=1).start()
    assert create(cluster).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert renew(cluster, b"x") == expire(cluster, b"x") == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert not [path for path in cluster.tree.nodes if path.startswith(tree.DELEGATION_TOKEN)]


def test_a_token_is_created_for_its_requester_or_for_another(cluster):
    now = cluster.now.wall
    made = create(cluster)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "alice")
    assert made.hmac == hmac_of("s", made.token_id)
    times = made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms
    assert [time - now for time in times] == [0, DAY, 7 * DAY]
    other = create(cluster, owner_principal_type="User", owner_principal_name="carol", lifetime=HOUR)
    assert (other.principal_name, other.token_requester_principal_name) == ("carol", "alice")
    assert other.expiry_timestamp_ms == other.max_timestamp_ms == now + HOUR
    kept = stored(cluster)
    assert kept.keys() == {made.token_id, other.token_id}
    assert kept[other.token_id].owner == Principal("User", "carol")
    assert kept[other.token_id].renewers == (Principal("User", "bob"),)
    told = [node.data.decode() for path, node in sorted(cluster.tree.nodes.items()) if "token_change_" in path]
    assert told == [made.token_id, other.token_id]


def test_the_owner_is_whom_rules_and_the_tree_name(cluster):
    made = create(cluster, "User:tenant:admin", owner_principal_type="User:tenant", owner_principal_name="admin")
    owner = Principal("User", "tenant:admin")
    assert (made.principal_type, made.principal_name) == owner
    assert stored(cluster)[made.token_id].owner == owner


def test_a_lifetime_beyond_all_time_is_cut(cluster):
    assert create(cluster, lifetime=(1 << 63) - 1).max_timestamp_ms == cluster.now.wall + 7 * DAY
    forever = FakeCluster(brokers=1, delegation_token_secret_key="s", delegation_token_max_lifetime_ms=(1 << 63) - 1)
    assert create(forever.start()).max_timestamp_ms == (1 << 63) - 1


def test_more_renewers_than_a_node_can_hold_are_refused(cluster):
    assert create(cluster, renewers=[f"user-{n}" for n in range(10_000)]).error_code == ErrorCode.INVALID_REQUEST
    assert stored(cluster) == {}


def test_owner_and_renewers_renew_it_up_to_its_life(cluster):
    made = create(cluster, lifetime=2 * HOUR)
    cluster.advance(HOUR)
    assert renew(cluster, made.hmac, period=1000) == 1000
    assert renew(cluster, made.hmac, BOB) == HOUR
    assert stored(cluster)[made.token_id].expires_ms == made.max_timestamp_ms
    assert renew(cluster, made.hmac, CAROL) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(cluster, b"unknown") == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_an_expired_token_is_not_renewed_and_that_comes_before_who_may(cluster):
    made = create(cluster, lifetime=1000)
    cluster.advance(1001)
    assert renew(cluster, made.hmac) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert renew(cluster, made.hmac, CAROL) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(cluster, made.hmac, period=1000) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(cluster, made.hmac, CAROL, period=1000) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(cluster, made.hmac) == 0
    assert stored(cluster) == {}


def test_a_period_moves_the_end_and_a_negative_one_is_the_end(cluster):
    made = create(cluster)
    assert expire(cluster, made.hmac, BOB, period=5000) == 5000
    assert expire(cluster, made.hmac, CAROL) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(cluster, made.hmac, period=0) == 0
    assert expire(cluster, made.hmac, BOB) == 0
    assert stored(cluster) == {}
    assert expire(cluster, made.hmac) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_the_controller_sweeps_what_has_expired(cluster):
    short, long = create(cluster, lifetime=1000), create(cluster)
    let_pass(cluster, HOUR // 2)
    assert stored(cluster).keys() == {long.token_id, short.token_id}
    let_pass(cluster, HOUR)
    assert stored(cluster).keys() == {long.token_id}
    told = [node.data.decode() for path, node in sorted(cluster.tree.nodes.items()) if "token_change_" in path]
    assert told[-1] == short.token_id
    create(cluster, lifetime=1000)
    let_pass(cluster, 2 * HOUR)
    assert stored(cluster).keys() == {long.token_id}


def test_the_next_controller_knows_them(cluster):
    made = create(cluster)
    leader = cluster.leader
    leader.kill()
    cluster.settle()
    assert cluster.leader is not leader
    assert renew(cluster, made.hmac, BOB, period=1000) == 1000
    assert create(cluster).error_code == 0
    assert len(stored(cluster)) == 2


def test_what_an_operator_removed_by_hand_is_read_again(cluster):
    made, other = create(cluster), create(cluster)
    cluster.by_hand(Delete(tree.delegation_token_path(made.token_id)))
    assert renew(cluster, made.hmac) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert renew(cluster, other.hmac, period=1000) == 1000


def test_few_notifications_are_kept(cluster):
    made = create(cluster)
    for _ in range(120):
        renew(cluster, made.hmac)
    assert len([path for path in cluster.tree.nodes if "token_change_" in path]) == 100
    cluster.leader.kill()
    cluster.settle()
    assert renew(cluster, made.hmac, period=1000) == 1000


def test_the_hmac_is_nowhere_but_in_the_answer(cluster):
    made = create(cluster)
    renew(cluster, made.hmac)
    expire(cluster, made.hmac)
    said = repr([event.fields for event in cluster.events]) + repr(cluster.tree.nodes)
    assert made.hmac.hex() not in said
    assert repr(made.hmac)[2:-1] not in said
