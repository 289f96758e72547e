"""One client's request, or a forged or late push of a controller, must not hold the whole cluster: others produce
meanwhile."""

import time
from threading import Event, Thread

import pytest

from tests.compatibility.differential.wire import KEYS, Connection
from tests.waiting import PATIENCE_S, wait_for
from tidelog.api.registry import APIS
from tidelog.errors import ErrorCode
from tidelog.shell.transport import Admin, Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

LONGEST_S = 5.0
"""Between a record and its acknowledgement, with room for a busy machine; these requests took 16 to 160 s."""


HIGHEST_EPOCH, HIGHEST_NUMBER = 2**31 - 1, 2**63 - 1


class Canary:
    """Produces one record after another, and knows the longest time that one took."""

    def __init__(self, bootstrap, topic):
        self.sent, self.longest, self.errors = 0, 0.0, []
        self._place = bootstrap, topic
        self._stop = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def _run(self):
        bootstrap, topic = self._place
        with Producer(bootstrap, linger_ms=0) as producer:
            while not self._stop.wait(0.01):
                began = time.monotonic()
                producer.send(topic, b"tweet")
                self.errors += [each.error for each in producer.flush(PATIENCE_S) if each.error]
                self.longest = max(self.longest, time.monotonic() - began)
                self.sent += 1


@pytest.fixture
def cluster():
    with Cluster(brokers=3) as running:
        running.create_topic("canary", 1)
        yield running


def elections(cluster):
    return sum(kind == "controller.elected" for broker in cluster.brokers for _, kind, _ in broker.logger.lines)


def controller_epoch(cluster):
    return max(
        fields["epoch"]
        for broker in cluster.brokers
        for _, kind, fields in list(broker.logger.lines)
        if kind == "controller.elected"
    )


def push_to_all(cluster, **values):
    """Each kind of push to the port between brokers of each broker, with nothing in it; the codes of the answers."""
    codes = set()
    for broker in cluster.brokers:
        connection = Connection(broker.brokers_port)
        for kind in ("LeaderAndIsr", "StopReplica", "UpdateMetadata"):
            answer = connection.ask(kind, APIS[KEYS[kind]].high, controller_id=0, **values)
            codes.add(ErrorCode(answer.error_code))
        connection.close()
    return codes


@pytest.mark.parametrize(("count", "partitions"), [(40_000, -1), (2_000, 10_000)])
def test_a_canary_sings_while_topics_without_end_are_asked_for(cluster, count, partitions):
    before = elections(cluster)
    wishes = [
        CreatableTopic(name=f"t{number}", num_partitions=partitions, replication_factor=1) for number in range(count)
    ]
    with Canary(cluster.bootstrap, "canary") as canary, Admin(cluster.bootstrap) as admin:
        wait_for(lambda: canary.sent, "the first record to be acknowledged")
        answer = admin.ask(CreateTopicsRequest(topics=wishes, validate_only=True), timeout_ms=60_000)
        sent = canary.sent
        wait_for(lambda: canary.sent > sent, "a record after it")
    assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert not canary.errors
    assert canary.longest < LONGEST_S
    assert elections(cluster) == before


def test_a_canary_sings_while_a_controller_that_nobody_elected_pushes(cluster):
    before = elections(cluster)
    with Canary(cluster.bootstrap, "canary") as canary:
        wait_for(lambda: canary.sent, "the first record to be acknowledged")
        for number in (-1, 0, HIGHEST_NUMBER):
            codes = push_to_all(cluster, controller_epoch=HIGHEST_EPOCH, push_number=number)
            assert codes == {ErrorCode.UNKNOWN_CONTROLLER_ID}
            sent = canary.sent
            wait_for(lambda sent=sent: canary.sent > sent, "a record after it")
        cluster.create_topic("afterwards", 3)
    assert not canary.errors
    assert canary.longest < LONGEST_S
    assert elections(cluster) == before


def test_a_canary_sings_while_pushes_bear_the_controllers_own_epoch_and_a_number_beyond_all(cluster):
    """The brokers refuse what the controller sends afterwards; it begins a term with a higher epoch, which they obey."""
    before = elections(cluster)
    with Canary(cluster.bootstrap, "canary") as canary:
        wait_for(lambda: canary.sent, "the first record to be acknowledged")
        epoch = controller_epoch(cluster)
        codes = push_to_all(cluster, controller_epoch=epoch, push_number=HIGHEST_NUMBER)
        assert ErrorCode.NONE in codes, "it was taken"
        cluster.create_topic("afterwards", 3)
        assert controller_epoch(cluster) > epoch
        cluster.create_topic("further", 3)
    assert not canary.errors
    assert canary.longest < LONGEST_S
    assert elections(cluster) == before + 1
