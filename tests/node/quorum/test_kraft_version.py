"""From static voters to dynamic ones (kraft.version 0 to 1, KIP-853), on a quorum of whole nodes."""

import pytest

from tests.node.quorum.quorum_cluster import PORTS, QuorumCluster, directory
from tests.node.quorum.test_describing import asked, request
from tidelog.config.feature_levels import KRAFT_VERSION
from tidelog.errors import ErrorCode
from tidelog.log.names import METADATA_TOPIC
from tidelog.quorum.state_file import FILE_NAME, load_state
from tidelog.quorum.voters import ReplicaKey, VoterSet, voter_record
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint
from tidelog.wire.messages.cluster.quorum_voters import RemoveRaftVoterRequest

UPGRADE, SAFE_DOWNGRADE = 1, 2
FOLDER = f"/data/{METADATA_TOPIC}-0"
KEYS = [ReplicaKey(number) for number in range(3)]


def place(number):
    return [VoterEndpoint(name="CONTROLLER", host=f"host-{number}", port=PORTS["CONTROLLER"])]


STATIC = VoterSet(KEYS, directories=False, records=[voter_record(key, place(key.id)) for key in KEYS])


def update(level, kind=UPGRADE, *, validate_only=False):
    key = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)


class Client:
    """The other end of a connection to a broker; it keeps the bytes that came."""

    def __init__(self):
        self.came = b""

    def receive(self, _, data):
        self.came += data

    def broken(self, _):
        """The broker's process is gone."""


def ask(cluster, number, wanted):
    """The node's answer to a client."""
    process, client = cluster.processes[number], Client()
    process.inbound += 1
    process.ends[process.inbound] = (client, 0)
    process.give("connected", process.inbound, "PLAINTEXT", "client", "User:ANONYMOUS")
    key, version = wanted.__key__, SCHEMAS[wanted.__key__].max_version
    frame = b"".join(encode_request(key, version, 1, "test", wanted))
    process.receive(process.inbound, frame)
    cluster.wait(lambda: client.came)
    return decode_response(key, version, memoryview(client.came)[4:])[1]


@pytest.fixture
def cluster():
    cluster = QuorumCluster(setup={"voters": STATIC})
    cluster.start(0, 1)
    cluster.settle()
    return cluster


def levels(cluster):
    return {number: node.quorum.kraft_version for number, node in cluster.nodes.items()}


def test_the_voters_become_dynamic_once_all_of_them_follow(cluster):
    leader = cluster.controller()
    refused = ask(cluster, leader, update(1))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert refused.error_message.endswith(
        "Invalid upgrade of kraft.version to 1 because not all of the voters support it: start the controllers 2 first"
    )
    cluster.start(2)
    cluster.settle()
    cluster.run(1_000)
    assert ask(cluster, 2, update(1, validate_only=True)).error_code == 0
    assert levels(cluster) == {0: 0, 1: 0, 2: 0}
    office = cluster.nodes[leader].quorum.office
    assert ask(cluster, 2, update(1)).error_code == 0
    cluster.run(1_000)
    assert levels(cluster) == {0: 1, 1: 1, 2: 1}
    for node in cluster.nodes.values():
        machine = node.quorum.machine
        assert [(key.id, key.directory) for key in machine.voters] == [(n, directory(n)) for n in range(3)]
        assert machine.voters.record_of(2).endpoints == place(2)
        assert machine.replica.voters.latest_offset < machine.replica.high_watermark
    assert ask(cluster, 1, update(1)).error_code == 0, "a second time it changes nothing"
    cluster.run(10_000)
    assert (cluster.controller(), cluster.nodes[leader].quorum.office) == (leader, office), "the leader goes on"
    (partition,) = asked(cluster, leader, request()).topics[0].partitions
    assert [each.replica_directory_id for each in partition.current_voters] == [directory(n) for n in range(3)]
    down = ask(cluster, 1, update(0, SAFE_DOWNGRADE))
    assert down.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert down.error_message.endswith("Can't downgrade the version of this feature.")


def test_sessions_last_as_long_as_their_brokers_with_static_voters(cluster):
    cluster.start(2)
    cluster.settle()
    epochs = {number: node.broker.broker_epoch for number, node in cluster.nodes.items()}
    cluster.run(25_000)  # a session that nothing renews is over after 9 s
    assert {number: node.broker.broker_epoch for number, node in cluster.nodes.items()} == epochs
    cluster.kill(next(number for number in epochs if number != cluster.controller()))
    cluster.settle()


def test_what_was_upgraded_stays_so_over_a_restart_and_voters_can_be_changed(cluster):
    cluster.start(2)
    cluster.settle()
    cluster.run(1_000)
    assert ask(cluster, 0, update(1)).error_code == 0
    cluster.run(1_000)
    for number in range(3):
        cluster.kill(number)
    cluster.start()
    cluster.settle()
    assert levels(cluster) == {0: 1, 1: 1, 2: 1}
    state = cluster.disks[0].read(f"{FOLDER}/{FILE_NAME}")
    assert b'"data_version":1' in state
    assert load_state(cluster.disks[0], FOLDER).epoch > 0
    removed = next(number for number in range(3) if number != cluster.controller())
    gone = RemoveRaftVoterRequest(cluster_id=None, voter_id=removed, voter_directory_id=directory(removed))
    assert ask(cluster, cluster.controller(), gone).error_code == 0
    assert len(cluster.nodes[cluster.controller()].quorum.machine.voters) == 2


def test_an_upgrade_that_is_not_committed_is_undone(cluster):
    """The leader appends it, and is cut off before anybody has it."""
    cluster.start(2)
    cluster.settle()
    cluster.run(1_000)
    leader = cluster.controller()
    process = cluster.processes[leader]
    cluster.kill((leader + 1) % 3)
    cluster.kill((leader + 2) % 3)
    process.node.quorum.upgrade_kraft_version(cluster.now, validate_only=False)
    assert process.node.quorum.kraft_version == 1
    cluster.kill(leader)
    cluster.start((leader + 1) % 3, (leader + 2) % 3)
    cluster.wait(lambda: cluster.controller() is not None, 60_000)
    cluster.start(leader)
    cluster.settle(60_000)
    assert levels(cluster) == {0: 0, 1: 0, 2: 0}
