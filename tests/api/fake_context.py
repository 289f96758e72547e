"""A broker as handlers see it, with an image that tests fill, and no node behind it."""

from types import SimpleNamespace
from typing import ClassVar

from tidelog.api.context import PENDING, Context
from tidelog.config.broker import BrokerConfig
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.effects import Reply
from tidelog.model import Endpoint, Time
from tidelog.security.delegation_tokens import TokenTable


class FakeController:
    def __init__(self):
        self.leading = False
        self.handled = []

    def handle(self, token, request, now):
        self.handled.append((token, request))
        return [Reply(token, "answered")]


class FakeReplicas(list):
    """Partitions in folders; `failed` folders have no usage."""

    failed = ()
    futures: ClassVar[dict] = {}

    def get(self, topic, index):
        return next(partition for partition in self if partition.name == (topic, index))

    def folder_of(self, name):
        return next(folder for folder, partition in list.__iter__(self) if partition.name == name)

    def __iter__(self):
        return iter([partition for _, partition in list.__iter__(self)])

    def usage(self, folder):
        if folder in self.failed:
            raise FileNotFoundError(folder)
        return 1000, 400


def image(brokers=(0, 1, 2), hidden=()):
    """Brokers with a client and an inter-broker listener; the hidden ones have only the latter."""
    found = ClusterImage("cluster-id")
    found.controller_id = 1
    for id_ in brokers:
        endpoints = {"REPLICATION": Endpoint("REPLICATION", "PLAINTEXT", "inner", 9100 + id_)}
        if id_ not in hidden:
            endpoints["PLAINTEXT"] = Endpoint("PLAINTEXT", "PLAINTEXT", f"host-{id_}", 9000 + id_)
        found.brokers[id_] = BrokerImage(id_, rack=f"rack-{id_}", endpoints=endpoints)
    return found


def add_topic(found, name, *leaders, topic_id=None, replicas=(0, 1, 2), isr=(0, 1), offline=()):
    topic_id = topic_id or name.encode().ljust(16, b".")[:16]
    partitions = {
        index: PartitionImage(leader, 5, 9, list(isr), list(replicas), list(offline))
        for index, leader in enumerate(leaders)
    }
    found.topics[name] = TopicImage(name, topic_id, partitions)
    found.topic_names[topic_id] = name
    return topic_id


def context(found=None, version=13, listener="PLAINTEXT", **options):
    config = BrokerConfig({"node.id": "0", **{name.replace("_", "."): value for name, value in options.items()}})
    forwarded = []
    configs = {}

    def forward(given, request):
        forwarded.append(request)
        return PENDING

    broker = SimpleNamespace(
        quorum=None,
        broker_id=0,
        broker_epoch=7,
        certificates=None,
        cluster_id="cluster-id",
        config=config,
        topics_requested={},
        image=found or image(),
        replicas=FakeReplicas(),
        controller=FakeController(),
        inter_broker_listener="REPLICATION",
        has_sasl=False,
        has_authorizer=False,
        configs=SimpleNamespace(
            topic=lambda name: configs.get(name, {}),
            group=lambda _: {},
            groups=list,
            broker=lambda _: {},
            user=lambda _: {},
            users=list,
            quota={}.get,
            overrides=configs,
        ),
        tokens=SimpleNamespace(table=TokenTable("a secret")),
        levels={},
        forward=forward,
        forwarded=forwarded,
    )
    from_broker = listener == "REPLICATION"
    named = (broker, Time(5, 6), version, "client", 1, listener, "peer", "User:ANONYMOUS", 77, [])
    return Context(*named, from_broker=from_broker)


def finished(steps):
    """The answer of a handler that pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
