"""Hostile bytes and the largest requests on the listener of a metadata quorum's controller, which is a broker, too.
Invariants: each is answered or closes its connection, the largest are answered; the process lives and is within its
memory; a client of the broker is served in between; and the quorum still commits afterwards.

Only well-formed requests with the right IDs may depose a controller, and none of these has them.
"""

import socket
import sys

import pytest

from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import CLOSED
from tests.fuzz import attacks, large
from tests.fuzz.attacks import MEGABYTE, attacked
from tests.fuzz.hostile import ANSWER_S, framed, header, shoot, spoiled
from tests.fuzz.test_large_requests import MEMORY, held_up
from tidelog.api.registry import CONTROLLER_APIS
from tidelog.wire.messages import SCHEMAS

CONTROLLED_SHUTDOWN = 7
"""What begins with zeros asks for broker 0's, which is this one: so it leaves, as it should."""
TURN_MS = 100
"""Processor time of the longest turn, twice what is aimed at: the load of the machine does not count."""
REFUSED = frozenset({0, 1, 2, 3, 999})
"""Keys of APIS that no controller has in these versions, though brokers do."""


@pytest.fixture(scope="module")
def target():
    with attacked(quorum=True, max_connections_per_ip="60") as running:
        yield running


@pytest.fixture(scope="module")
def broker(target):
    side = Side("canary", target.port)
    side.topic("canary", 1)
    side.close()
    return target.child


@pytest.fixture(scope="module")
def controller(target):
    """The controller's port."""
    _, _, port = target.child.properties()["controller.quorum.bootstrap.servers"].rpartition(":")
    return int(port)


@pytest.fixture(autouse=True)
def commits_afterwards(request, target):
    yield
    side = Side("after", target.port)
    side.topic(f"after-{abs(hash(request.node.name))}", 1)
    side.close()


def test_spoiled_requests_of_every_api(controller):
    for api in CONTROLLER_APIS.values():
        for body in () if api.key == CONTROLLED_SHUTDOWN else spoiled(api):
            shoot(controller, framed(body))
        for version in (-1, api.low - 1, api.high + 1, 32767):
            body = header(api.key, version, flexible=True) + b"\0" * 20
            answer = shoot(controller, framed(body), close=False)
            assert (answer == CLOSED) == (api.key != 18), (api.name, version)


def test_keys_of_other_listeners_and_none(controller):
    for key in REFUSED:
        assert shoot(controller, framed(header(key, 0) + b"\0" * 20), close=False) == CLOSED


def test_announced_lengths_take_no_memory(target, controller):
    target.forget_peak()
    before = target.peak_bytes
    held = [socket.create_connection(("127.0.0.1", controller)) for _ in range(50)]
    for sock in held:
        sock.sendall((1_000_000).to_bytes(4, "big") + bytes(10))
    assert shoot(controller, (2**31 - 1).to_bytes(4, "big") + bytes(64), close=False) == CLOSED
    assert target.peak_bytes - before < 30 * MEGABYTE
    for sock in held:
        sock.close()


def test_one_address_has_so_many_connections_there_as_on_other_listeners(controller):
    held = [socket.create_connection(("127.0.0.1", controller), timeout=ANSWER_S) for _ in range(60)]
    refused = 0
    for sock in held:  # some of the 60 are the canary's and the node's own
        sock.sendall(framed(header(18, 0)))
        try:
            refused += not sock.recv(1000)
        except ConnectionResetError:
            refused += 1
        sock.close()
    assert 0 < refused < 60


@pytest.mark.parametrize(
    ("key", "path"),
    large.cases(of_controllers=True),
    ids=lambda each: SCHEMAS[each].name if isinstance(each, int) else "",
)
def test_the_largest_request_of_each_api(target, controller, key, path):
    cost = attacks.largest_of(target, key, path, controller)
    sys.stdout.write(f"{cost}\n")
    assert cost.outcome.startswith("answered")
    assert cost.memory <= MEMORY
    assert cost.turn_ms <= TURN_MS
    assert not held_up(cost)
