"""What a failover and a full start cost as a cluster grows: `python -m bench.metadata_scale [BROKERS:PARTITIONS …]`.

Real `Node`s in virtual time, three of which vote; topics have three replicas. Messages and bytes are those of all
connections, CPU is the time that the new controller's node takes for its inputs, as a broker, too. A failover ends once
every living broker knows a living leader for every partition, a full start once every broker leads as it did.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.node.quorum.quorum_cluster import Process, QuorumCluster
from tidelog.effects import Send
from tidelog.sim.carry import read_part
from tidelog.wire import codec
from tidelog.wire.message import key_of
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

SIZES = ((10, 100), (10, 300), (10, 1_000), (30, 300), (30, 1_000), (100, 300), (100, 1_000))
TOPIC_PARTITIONS = 100
CLIENT = 1 << 40
VERSION = 7


class Cost(NamedTuple):
    """`ms` is virtual time, `cpu` seconds of the controller's node."""

    ms: int
    messages: int
    bytes: int
    cpu: float


class Counting(Process):
    """A process whose inputs are timed, and whose frames are counted."""

    cpu = 0.0

    def give(self, name: str, *arguments: Any) -> None:
        if not self.alive or self.stopped is not None:
            return
        begun = time.thread_time()
        effects = getattr(self.node, name)(*arguments, self.cluster.now)
        self.cpu += time.thread_time() - begun
        for effect in effects:
            self.carry_out(effect)
        deadline = self.node.next_deadline
        if deadline is not None and (self.wakes_at is None or deadline < self.wakes_at):
            self.wakes_at = deadline
            self.cluster.after(max(deadline - self.cluster.now.mono, 0), partial(self.wake, deadline))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send) and effect.connection in self.ends:
            self.cluster.messages += 1
            self.cluster.bytes += sum(len(read_part(part)) for part in effect.parts)
        super().carry_out(effect)


class Scaled(QuorumCluster):
    messages = bytes = 0
    process = Counting
    most_spins = 1_000_000

    def __init__(self, brokers: int, **options: Any) -> None:
        super().__init__(brokers, voters=3, **options)

    def create(self, partitions: int) -> None:
        """Topics of up to 100 partitions, by one request to the controller."""
        controller = self.processes[self.controller()]
        controller.give("connected", CLIENT, "PLAINTEXT", "client", "User:ANONYMOUS")
        counts = [min(TOPIC_PARTITIONS, partitions - at) for at in range(0, partitions, TOPIC_PARTITIONS)]
        topics = [CreatableTopic(name=f"t{n}", num_partitions=c, replication_factor=3) for n, c in enumerate(counts)]
        request = CreateTopicsRequest(topics=topics, timeout_ms=600_000)
        frame = b"".join(map(read_part, codec.encode_request(key_of(request), VERSION, 1, "scale", request)))[4:]
        controller.give("receive", CLIENT, [memoryview(frame)])
        self.until(lambda: self.is_led(partitions))

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until it holds. It is dear, so it is asked every few milliseconds only."""
        end = self.now.mono + 600_000
        while not condition():
            assert self.now.mono < end, self.history[-10:]
            self.run(5)

    def is_led(self, partitions: int) -> bool:
        """Whether every living broker knows a living leader of every partition."""
        alive = set(self.nodes)
        for node in self.nodes.values():
            known = [each for topic in node.broker.image.topics.values() for each in topic.partitions.values()]
            if len(known) < partitions or not all(each.leader in alive for each in known):
                return False
        return True

    def cost(self, act: Callable[[], Any], condition: Callable[[], bool]) -> Cost:
        messages, size, begun = self.messages, self.bytes, self.now.mono
        act()
        before = {number: process.cpu for number, process in self.processes.items()}
        self.until(condition)
        controller = self.controller()
        cpu = self.processes[controller].cpu - before.get(controller, 0.0)
        return Cost(self.now.mono - begun, self.messages - messages, self.bytes - size, cpu)


def measured(brokers: int, partitions: int) -> tuple[Cost, Cost]:
    """A failover, and a full start."""
    cluster = Scaled(brokers)
    cluster.start()
    cluster.settle(60_000)
    cluster.create(partitions)
    cluster.run(1_000)
    dead = cluster.controller()
    failover = cluster.cost(
        lambda: cluster.kill(dead), lambda: cluster.controller() is not None and cluster.is_led(partitions)
    )
    for number in list(cluster.processes):
        cluster.kill(number)
    cluster.run(20_000)
    start = cluster.cost(cluster.start, lambda: cluster.is_settled() and cluster.is_led(partitions))
    return failover, start


def main() -> None:
    sizes = [tuple(map(int, word.split(":"))) for word in sys.argv[1:]] or SIZES
    print("| brokers | partitions | what | ms | messages | MB | CPU, s |\n|---|---|---|---|---|---|---|")
    for brokers, partitions in sizes:
        for what, cost in zip(("failover", "full start"), measured(brokers, partitions), strict=True):
            figures = f"{cost.ms} | {cost.messages:,} | {cost.bytes / 1e6:.2f} | {cost.cpu:.2f}"
            print(f"| {brokers} | {partitions:,} | {what} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
