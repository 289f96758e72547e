"""One replica of the quorum on a simulated disk, whose writes end when the test says so."""

from random import Random

from tidelog.effects import PeerRequest, Replace, Reply, Sync
from tidelog.model import Time
from tidelog.quorum import requests
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.replica import Replica, config_of
from tidelog.quorum.state_file import load_state
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.quorum.voting import QuorumConfig
from tidelog.sim.disk import SimDisk

ROOT = "/metadata"
FOLDER = f"{ROOT}/__cluster_metadata-0"


def key(node: int) -> ReplicaKey:
    return ReplicaKey(node, bytes([node + 1]) * 16)


VOTERS = VoterSet(map(key, range(3)))


def at(ms: int) -> Time:
    return Time(ms, 1_700_000_000_000 + ms)


def opened(disk, voters=VOTERS) -> Replica:
    return Replica.open(disk, FOLDER, voters, config_of(), at(0))


class One:
    """The replica of one node, and what it sends."""

    def __init__(self, node=1, disk=None, voters=VOTERS, me=None) -> None:
        self.disk = disk if disk is not None else SimDisk([ROOT], Random(1))
        me = me if me is not None else key(node)
        state = load_state(self.disk, FOLDER)
        config = QuorumConfig(me, "c", opened(self.disk, voters), state, lambda low, _: low, bootstrap=range(3))
        self.quorum = Quorum(config)
        self.now = 0
        self.writes = []
        self.asked = []
        self.answers = {}
        self._token = 1_000
        self.quorum.start(at(0))
        self.take()

    def take(self):
        """Sort the effects."""
        for effect in self.quorum.effects():
            match effect:
                case Sync() | Replace():
                    self.writes.append(effect)
                case PeerRequest():
                    self.asked.append(effect)
                case Reply(token, response):
                    self.answers[token] = response

    def settle(self):
        """End all writes, well."""
        while self.writes:
            write = self.writes.pop(0)
            if isinstance(write, Sync):
                for file in write.files:
                    file.sync()
            else:
                self.disk.replace(write.path, write.content)
            self.quorum.synced(write.token, at(self.now))
            self.take()

    def request(self, request):
        """The token of a request that arrives."""
        self._token += 1
        self.quorum.request(self._token, request, at(self.now))
        self.take()
        return self._token

    def answered(self, request):
        """The partition of the answer, once everything is durable."""
        token = self.request(request)
        self.settle()
        return requests.answered_partition(self.answers[token])

    def wait(self, ms):
        self.now += ms
        self.quorum.wake(at(self.now))
        self.take()

    def vote(self, candidate, epoch, end=(0, 0), *, pre_vote=False, voter=None):
        voter = voter if voter is not None else self.quorum.me
        found = requests.vote_request("c", key(candidate), voter, epoch, requests.LogEnd(*end), pre_vote=pre_vote)
        return self.answered(found)

    def begin(self, leader, epoch):
        return self.answered(requests.begin_request("c", self.quorum.me, requests.LeaderAndEpoch(leader, epoch)))

    def grant_all(self):
        """Every vote that was requested is granted."""
        asked, self.asked = self.asked, []
        for each in asked:
            response = requests.vote_response(requests.LeaderAndEpoch(-1, self.quorum.epoch), 0, granted=True)
            self.quorum.answered(each.token, response, at(self.now))
            self.take()

    def lead(self):
        """Win an election."""
        self.settle()
        while not isinstance(self.quorum.state, Leader):
            if not self.asked:
                self.wait(1_000)
            self.grant_all()
            self.settle()

    def fetch(self, node, offset, last_epoch, *, epoch=None, high_watermark=2**62):
        epoch = self.quorum.epoch if epoch is None else epoch
        position = requests.Position(requests.LogEnd(last_epoch, offset), high_watermark)
        return self.request(requests.fetch_request("c", key(node), epoch, position, wait_ms=500, most=1 << 20))
