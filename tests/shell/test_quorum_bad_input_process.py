"""What keeps a node out of a metadata quorum is one sentence and exit status 1, or a wait with one; nothing is guessed
and nothing overwritten."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.shell.test_quorum_brokers_process import leader_of_quorum
from tests.waiting import PATIENCE_S, wait_for
from tidelog.log.checkpoints import META_PROPERTIES, format_meta_properties, read_meta_properties
from tidelog.quorum.formatting import METADATA_FOLDER
from tidelog.quorum.state_file import FILE_NAME
from tidelog.shell.quorum import quorum_folders
from tidelog.shell.supervisor import Supervisor
from tidelog.shell.transport import Admin


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Supervisor(tmp_path_factory.mktemp("quorum"), brokers=3, port=0, quorum=True) as running:
        yield running


class Node:
    """Node 3: its options and its folder, formatted as one that only follows; a case spoils them."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder / "broker-3"
        folders = {child.number: child.folder for child in cluster.children}
        self.voters = quorum_folders.prepare(folders | {3: self.folder}, dict.fromkeys([*folders, 3], "127.0.0.1"))
        self.options = quorum_folders.options_of(3, self.voters) | {
            "node.id": "3",
            "log.dirs": str(self.folder),
            "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION",
        }

    @property
    def metadata(self):
        return self.folder / METADATA_FOLDER

    def make_voter(self):
        """A controller with static voters, who are all down."""
        ports = free_ports(3)
        del self.options["controller.quorum.bootstrap.servers"]
        self.options |= {
            "process.roles": "broker,controller",
            "controller.quorum.voters": ",".join(f"{3 + n}@127.0.0.1:{port}" for n, port in enumerate(ports)),
            "listeners": f"{self.options['listeners']},CONTROLLER://127.0.0.1:{ports[0]}",
            "broker.session.timeout.ms": "1000",
        }
        for file in self.metadata.iterdir():
            file.unlink()

    def rename(self, **fields):
        """Change whose directory it is."""
        file = self.folder / META_PROPERTIES
        known = read_meta_properties(file.read_bytes(), str(file))
        file.write_bytes(format_meta_properties(known._replace(**fields)))

    def take_number(self, number):
        self.options |= {"node.id": str(number), "broker.session.timeout.ms": "1000"}
        self.rename(node_id=number)

    def start(self):
        file = self.folder.with_name("server.properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in self.options.items()))
        command = [sys.executable, "-m", "tidelog.shell.broker", str(file)]
        with self.lines.open("wb") as lines:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=lines)

    @property
    def lines(self):
        return self.folder.with_name("lines")

    def printed(self):
        return self.lines.read_text()


def unformatted(node):
    for file in sorted(node.folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()


def of_another_cluster(node):
    """Its log directory names another cluster, which it learns from the controllers."""
    node.rename(cluster_id="AAAAAAAAAAAAAAAAAAAAAA")


def with_an_unreadable_state(node):
    (node.metadata / FILE_NAME).write_bytes(b'{"leaderId":')


def with_rot(node):
    """What it followed of the metadata before is damaged in the middle, below what it knows to be committed."""
    process = node.start()
    wait_for(lambda: committed(node) > 3, "committed records")
    process.kill()
    process.wait()
    (log,) = node.metadata.glob("*.log")
    content = bytearray(log.read_bytes())
    content[80] ^= 1
    log.write_bytes(content)


def committed(node):
    file = node.metadata / "committed-state"
    return json.loads(file.read_text())["highWatermark"] if file.exists() else 0


def with_other_voters(node):
    node.make_voter()
    state = {"clusterId": "", "leaderId": -1, "leaderEpoch": 1, "votedId": -1, "appliedOffset": 0, "data_version": 0}
    voters = [{"voterId": number} for number in (3, 4, 6)]
    (node.metadata / FILE_NAME).write_text(json.dumps(state | {"currentVoters": voters}))


def with_a_store(node):
    node.options["metadata.store"] = f"sqlite:{node.folder}/metadata.sqlite"


def with_a_voter_twice(node):
    node.make_voter()
    node.options["controller.quorum.voters"] += ",4@127.0.0.1:1"


def without_a_majority(node):
    node.make_voter()


def with_the_number_of_the_leader(node):
    """The others call this node their leader, whom it so cannot follow."""
    node.take_number(leader(node))


def with_the_number_of_another(node):
    """The second process with this number waits for the end of its session."""
    node.take_number((leader(node) + 1) % 3)


def leader(node):
    with Admin(node.cluster.bootstrap) as admin:
        return leader_of_quorum(admin)


ENDS = {
    unformatted: r"Log directory .* is not formatted: run `tidelog storage format` with the cluster's ID\.",
    of_another_cluster: r"The log directory belongs to cluster A{22}, but controllers \d, \d.* belong to another cluster: "
    r"correct controller.quorum.bootstrap.servers or controller.quorum.voters, or format an empty directory",
    with_an_unreadable_state: r"quorum-state: not a quorum state; restore the file, or remove this voter",
    with_rot: r"offset \d+ is damaged, although everything below \d+ was committed; remove this voter",
    with_other_voters: r"the voters were 3, 4, 6, but controller.quorum.voters has 3, 4, 5; set it back",
    with_a_store: r"process.roles: metadata.store is set, too, but .* is the log of a metadata quorum; remove",
    with_a_voter_twice: r"controller.quorum.voters must name each controller once, not 4 twice",
}
DUPLICATE = r"another process with this node.id is running; stop it, or give this node another"
WAITS = {
    without_a_majority: r"no leader of the metadata quorum was heard of; most of the controllers 3, 4, 5 must run",
    with_the_number_of_the_leader: DUPLICATE,
    with_the_number_of_another: DUPLICATE,
}


@pytest.mark.parametrize("spoil", ENDS, ids=lambda case: case.__name__)
def test_a_node_that_must_not_start_ends_with_one_sentence(cluster, tmp_path, spoil):
    node = Node(cluster, tmp_path)
    spoil(node)
    before = held(node)
    process = node.start()
    code = process.wait(PATIENCE_S)
    said = node.printed()
    assert code == 1, said
    assert re.search(ENDS[spoil], said), said
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if re.search(ENDS[spoil], line)]) == 1
    if spoil is not of_another_cluster:
        assert held(node).items() >= before.items(), "nothing that was there is written again"


def held(node):
    """The files that a node must not change before it may start."""
    return {path: path.read_bytes() for path in sorted(Path(node.folder).rglob("*")) if path.name in KEPT}


KEPT = {FILE_NAME, "committed-state", META_PROPERTIES, f"{0:020d}.log"}


@pytest.mark.parametrize("spoil", WAITS, ids=lambda case: case.__name__)
def test_a_node_that_may_start_later_waits_with_one_sentence(cluster, tmp_path, spoil):
    node = Node(cluster, tmp_path)
    spoil(node)
    process = node.start()
    try:
        wait_for(lambda: re.search(WAITS[spoil], node.printed()), WAITS[spoil])
        assert process.poll() is None, node.printed()
    finally:
        process.kill()
        process.wait()
