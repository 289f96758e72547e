"""What ACLs cost a produce: `python -m bench.acls` prints microseconds of one broker's CPU for each request.

The broker is a `Node` on a simulated disk, in this process; a request carries one record to one of ten topics. Rounds
without an authorizer, with no more rules than the client needs, and with 10,000 take turns; the fastest rounds count.
"""

import time
from collections.abc import Iterable

from tests.node.one_broker import TOPIC, OneBroker, values
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.security.acls import (
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.wire import codec
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RULES = 10_000
TOPICS = [f"{TOPIC}{number}" for number in range(10)]
ROUNDS, REQUESTS = 200, 500
CLIENT, PRODUCE, VERSION = 9, 0, 12


def rules(count: int) -> Iterable[Binding]:
    """Half of them literal, half prefixes, of a thousand principals; those of the client among them."""

    def rule(name: str, pattern: PatternType, user: str) -> Binding:
        acl = Acl(f"User:{user}", "*", AclOperation.WRITE, Permission.ALLOW)
        return Binding(ResourcePattern(ResourceType.TOPIC, name, pattern), acl)

    yield rule(TOPIC, PatternType.PREFIXED, "alice")
    for number in range(count - 1):
        pattern = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
        yield rule(f"topic-{number}", pattern, f"user-{number % 1000}")


class Kind:
    """A broker, and how long its fastest round took."""

    def __init__(self, name: str, acls: int | None) -> None:
        self.name = name
        self.fastest = float("inf")
        options = (
            {} if acls is None else {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
        )
        self.broker = OneBroker(min_insync_replicas=1, **options)
        for number, topic in enumerate(TOPICS):
            topic_id = f"topic-{number}".encode().ljust(16, b".")
            self.broker.lead(isr=(0,), replicas=(0,), topic=topic, topic_id=topic_id)
        if acls is not None:
            self.broker.node.broker.authorizer.update(AclIndex(rules(acls)))
        self.broker.connect(CLIENT, principal="User:alice")
        self.frames = [self.frame(topic) for topic in TOPICS]

    def frame(self, topic: str) -> bytes:
        data = [PartitionProduceData(index=0, records=values("m"))]
        request = ProduceRequest(
            acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )
        return b"".join(map(bytes, codec.encode_request(PRODUCE, VERSION, 1, "bench", request)))[4:]

    def round(self) -> None:
        receive, now, frames = self.broker.node.receive, self.broker.now, self.frames
        begin = time.thread_time_ns()
        for number in range(REQUESTS):
            receive(CLIENT, [memoryview(bytearray(frames[number % len(frames)]))], now)
        self.fastest = min(self.fastest, (time.thread_time_ns() - begin) / REQUESTS / 1000)


def main() -> None:
    kinds = [Kind("no authorizer", None), Kind("1 ACL", 1), Kind(f"{RULES:,} ACLs", RULES)]
    for _ in range(ROUNDS):
        for kind in kinds:
            kind.round()
    for kind in kinds:
        more = kind.fastest - kinds[0].fastest
        print(f"{kind.name:>14}: {kind.fastest:6.2f} us a produce, {more:+.2f} us")


if __name__ == "__main__":
    main()
