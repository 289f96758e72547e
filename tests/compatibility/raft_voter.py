"""One voter of Tidelog as a process, for the log of Kafka's TestRaftServer: `python -m … NUMBER FOLDER PORT,PORT,…`.

The replica is that of the metadata log under another name; sockets and files are real. While it leads it appends random
records, as TestRaftServer does.
"""

import asyncio
import sys
import time
from contextlib import suppress
from random import Random

from tidelog.effects import PeerRequest, Replace, Reply, Sync
from tidelog.errors import ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.quorum import replica, requests
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.replica import Replica, config_of
from tidelog.quorum.state_file import load_state
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.quorum.voting import QuorumConfig
from tidelog.shell.disk import OsDisk
from tidelog.sim.carry import read_part
from tidelog.wire.codec import decode_request, decode_response, encode_request, encode_response
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.features import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

TOPIC = "__raft_performance_test"
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
FETCH, FETCH_VERSION = 1, 18
SERVED = {1: FETCH_VERSION, 18: 4, 52: 2, 53: 1, 54: 1, 59: 1, 82: 0}
APPEND_S, TIMEOUT_S = 0.05, 2.0


def directory(number):
    """The ID of a voter's directory."""
    return bytes([number + 1]) * 16


class Voter:
    """`ports` are those of all voters, by number."""

    def __init__(self, number, folder, ports):
        requests._NAME = TOPIC
        requests.TOPIC_ID = replica.TOPIC_ID = bytes(15) + b"\x02"
        replica.PARTITION = TopicPartition(TOPIC, 0)
        self.number, self.ports, self.random = number, ports, Random()
        self.disk, home = OsDisk([folder]), f"{folder}/{TOPIC}-0"
        voters = VoterSet(map(ReplicaKey, range(len(ports))), directories=False)
        held = Replica.open(self.disk, home, voters, config_of(), self.now)
        me = ReplicaKey(number, directory(number))
        dice = self.random.randint
        config = QuorumConfig(me, CLUSTER_ID, held, load_state(self.disk, home), dice, bootstrap=range(len(ports)))
        self.quorum = Quorum(config)
        self.answers, self.links, self.timer = {}, {}, None

    @property
    def now(self):
        return Time(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)

    async def run(self):
        await asyncio.start_server(self.serve, "127.0.0.1", self.ports[self.number])
        self.give(self.quorum.start)
        while True:
            await asyncio.sleep(APPEND_S)
            if self.quorum.is_in_office:
                self.give(self.quorum.append, [self.random.randbytes(64)])

    def give(self, function, *arguments):
        function(*arguments, self.now)
        loop = asyncio.get_running_loop()
        for effect in self.quorum.effects():
            match effect:
                case Sync(token, files):
                    for file in files:
                        file.sync()
                    loop.call_soon(self.give, self.quorum.synced, token)
                case Replace(token, path, content):
                    self.disk.replace(path, content)
                    loop.call_soon(self.give, self.quorum.synced, token)
                case Reply(token, response):
                    self.answers.pop(token).set_result(response)
                case PeerRequest():
                    task = loop.create_task(self.ask(effect))
                    self.links[task] = None
                    task.add_done_callback(self.links.pop)
        if self.timer is not None:
            self.timer.cancel()
        due = max(self.quorum.next_deadline - self.now.mono, 0) / 1000
        self.timer = loop.call_later(min(due, 60), self.give, self.quorum.wake)

    async def ask(self, effect):
        key = effect.request.__key__
        version = FETCH_VERSION if key == FETCH else SCHEMAS[key].max_version
        response = None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[effect.target])
                try:
                    writer.writelines(map(read_part, encode_request(key, version, 1, "voter", effect.request)))
                    response = decode_response(key, version, await frame(reader))[1]
                finally:
                    writer.close()
        except ConnectionRefusedError:
            self.give(self.quorum.gone, effect.target)
        except (OSError, EOFError, TimeoutError):
            pass
        self.give(self.quorum.answered, effect.token, response)

    async def serve(self, reader, writer):
        with suppress(OSError, EOFError):
            while True:
                header, request = decode_request(await frame(reader))
                response = await self.answered(request)
                key, version, correlation_id, _ = header
                known = version if version <= SCHEMAS[key].max_version else 0
                parts = encode_response(key, known, correlation_id, response)
                writer.writelines(map(read_part, parts))
        writer.close()

    async def answered(self, request):
        if isinstance(request, ApiVersionsRequest):
            keys = [ApiVersion(api_key=key, min_version=0, max_version=most) for key, most in SERVED.items()]
            return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=keys)
        token = len(self.answers) + time.monotonic_ns()
        self.answers[token] = asyncio.get_running_loop().create_future()
        answer = self.answers[token]
        self.give(self.quorum.request, token, request)
        return await answer


async def frame(reader):
    size = int.from_bytes(await reader.readexactly(4))
    return memoryview(await reader.readexactly(size))


if __name__ == "__main__":
    number, folder, ports = sys.argv[1:]
    asyncio.run(Voter(int(number), folder, list(map(int, ports.split(",")))).run())
