"""Finding the cluster: which of the bootstrap addresses are asked, and when."""

import pytest

from tests.client.ground import API_VERSIONS, Ground
from tidelog.client.admin import Admin
from tidelog.client.cluster import ASK_ANOTHER_MS
from tidelog.client.options import AdminOptions

BOOTSTRAP = [(f"host{number}", 9092) for number in range(3)]


def started(seed, paused):
    """A client that has just started; the paused brokers accept connections and answer nothing."""
    ground = Ground(seed)
    answer = ground.handlers[API_VERSIONS]
    ground.handlers[API_VERSIONS] = lambda broker, *given: broker in paused or answer(broker, *given)
    ground.start(Admin(BOOTSTRAP, AdminOptions(), ground.entropy))
    return ground


@pytest.mark.parametrize("paused", [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}], ids=str)
def test_paused_brokers_cost_a_second_each(paused):
    for seed in range(10):
        ground = started(seed, paused)
        assert ground.run_until(
            lambda ground=ground: ground.client.metadata.updates, ASK_ANOTHER_MS * len(paused) + 100
        )


def test_brokers_that_answer_are_asked_once():
    ground = started(0, paused=())
    ground.run(ASK_ANOTHER_MS * 3)
    assert ground.client.metadata.updates == 1
    assert len({broker for broker, *_ in ground.asked}) == 1


def test_where_all_are_paused_each_is_tried_again():
    ground = started(0, paused={0, 1, 2})
    ground.run(60_000)
    asked = [broker for broker, *_ in ground.asked]
    assert all(1 < asked.count(broker) <= 7 for broker in range(3)), asked
