"""No request to a controller, however odd, ends its process or fails within it: every API in every version, drawn.

Method: as in `tests/node/test_any_request.py`, to the listener of controllers, of the leader and of a follower. Such a
request may depose the leader or remove a voter, which is what the protocol is for; a failed request is not.
"""

from functools import cache
from itertools import count
from random import Random

import pytest

from tests.node import test_any_request as any_request
from tests.node.quorum.quorum_cluster import CLUSTER_ID, QuorumCluster
from tidelog.api.registry import CONTROLLER_APIS
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS

NAMES = (CLUSTER_ID, CLUSTER_ID, "__cluster_metadata", "__cluster_metadata", "", "CONTROLLER", "host-1", "nope")
DRAWS = 10
CONNECTIONS = count(100_000)


@cache
def versions(key):
    api = CONTROLLER_APIS[key]
    return range(api.low, api.high + 1)


def ask(process, key, version, request):
    connection = next(CONNECTIONS)
    process.give("connected", connection, "CONTROLLER", "a client", "User:ANONYMOUS")
    parts = codec.encode_request(key, version, 1, "test", request)
    process.give("receive", connection, [memoryview(b"".join(map(bytes, parts))[4:])])


@pytest.mark.parametrize("key", sorted(CONTROLLER_APIS), ids=lambda key: SCHEMAS[key].name)
def test_no_request_to_a_controller_ends_in_a_fault_of_ours(key, monkeypatch):
    monkeypatch.setattr(any_request, "NAMES", NAMES)
    random = Random(key)
    cluster = QuorumCluster(3, seed=key).start()
    cluster.settle()
    for version in versions(key):
        for _ in range(DRAWS):
            for number in (cluster.controller() or 0, 1, 2):
                ask(cluster.processes[number], key, version, any_request.drawn(SCHEMAS[key].request, random))
            cluster.run(100)
            assert {number: process.stopped for number, process in cluster.processes.items() if process.stopped} == {}
            assert [each for each in cluster.history if each[2] == "request.failed"] == []
