"""One broker as a client reaches it: versions are agreed on first, and what cannot be an answer ends the connection."""

from itertools import pairwise

import pytest

from tests.client.ground import API_VERSIONS, BOOTSTRAP, METADATA, Ground
from tidelog.client.admin import ANY, Admin
from tidelog.client.options import AdminOptions
from tidelog.effects import Close, Connect, Send
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.messages.cluster.features import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest, ListGroupsResponse


def started(ground, **options):
    return ground.start(Admin(BOOTSTRAP, AdminOptions(**options), ground.entropy))


def test_the_versions_are_asked_for_first_and_the_newest_common_ones_used():
    ground = Ground()
    ground.ranges[METADATA] = (0, 9)
    started(ground)
    ground.run(100)
    assert [(key, version) for _, key, version, _ in ground.asked[:2]] == [(API_VERSIONS, 4), (METADATA, 9)]


def test_a_broker_that_does_not_speak_our_apiversions_is_asked_in_its_own():
    ground = Ground()
    answer = ground.handlers[API_VERSIONS]
    ground.ranges[API_VERSIONS] = (0, 2)

    def old(broker, request, reply):
        if ground.asked[-1][2] > 2:
            keys = [
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ground.ranges.items()
            ]
            reply(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys))
        else:
            answer(broker, request, reply)

    ground.handlers[API_VERSIONS] = old
    started(ground)
    encode = codec.encode_response
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            codec,
            "encode_response",
            lambda key, version, number, response: encode(
                key,
                0 if getattr(response, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION else version,
                number,
                response,
            ),
        )
        ground.run(100)
    assert [version for _, key, version, _ in ground.asked if key == API_VERSIONS] == [4, 2]
    assert ground.client.metadata.updates == 1


@pytest.mark.parametrize("garbage", [b"\0", b"\0\0\0\x63", b"\0\0\0\2" + b"\xff" * 9])
def test_what_is_no_answer_ends_the_connection_and_another_is_opened(garbage):
    ground = Ground()
    client = started(ground)
    ground.run(100)
    ticket = ground.call(client.ask, ListGroupsRequest(), ANY, ground.now)
    connection = ground.client.network._links[0].connection or ground.client.network._links[-1].connection
    effects = client.received(connection, [memoryview(garbage)], ground.now)
    assert [effect.connection for effect in effects if isinstance(effect, Close)] == [connection]
    ground.carry_out(effects)
    ground.handlers[16] = lambda _broker, _request, reply: reply(ListGroupsResponse())
    results = []
    assert ground.run_until(lambda: results.extend(client.take_results()) or results, 10_000)
    assert results[0].ticket == ticket


def test_a_world_that_never_connects_is_given_up_on():
    ground = Ground()
    client = Admin(BOOTSTRAP, AdminOptions(socket_connection_setup_timeout_ms=500), ground.entropy)
    (first,) = client.wake(ground.now)
    assert isinstance(first, Connect)
    late = ground.now._replace(mono=600)
    effects = client.wake(late)
    assert [type(effect) for effect in effects] == [Close]
    (again,) = client.wake(late._replace(mono=client.next_deadline))
    assert isinstance(again, Connect)
    assert again.connection != first.connection


def test_reports_about_connections_that_are_gone_change_nothing():
    ground = Ground()
    client = started(ground)
    ground.run(100)
    for report in (client.disconnected, client.connected):
        assert report(-99, ground.now) == []
    assert client.connect_failed(-99, "no", ground.now) == []
    assert client.received(-99, [memoryview(b"x")], ground.now) == []


def test_a_closed_client_wants_nothing_more():
    ground = Ground()
    client = started(ground)
    ground.run(100)
    effects = client.close(ground.now)
    assert all(isinstance(effect, Close) for effect in effects)
    assert client.next_deadline is None
    assert not any(isinstance(effect, Send) for effect in client.wake(ground.now))


def test_failures_are_waited_out_longer_each_time():
    ground = Ground()
    ground.down = {1, 2}
    attempts = []
    client = Admin(BOOTSTRAP, AdminOptions(reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000), ground.entropy)
    now = ground.now
    while now.mono < 10_000:
        for effect in client.wake(now):
            if isinstance(effect, Connect):
                attempts.append(now.mono)
                client.connect_failed(effect.connection, "refused", now)
        now = now._replace(mono=max(now.mono + 1, client.next_deadline))
    gaps = [later - earlier for earlier, later in pairwise(attempts)]
    assert 40 <= gaps[0] <= 130
    assert all(800 <= gap <= 1_250 for gap in gaps[-3:])
    assert len(attempts) < 20
