"""The layout that `tidelog rebalance` moves to."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.replicas.balanced_layout import broker_loads, even_layout
from tidelog.model import TopicPartition

RACKLESS = dict.fromkeys(range(4))


def layout(*replicas):
    return {TopicPartition("t", index): list(own) for index, own in enumerate(replicas)}


def moved(before, after):
    return sum(len(set(after[partition]) - set(before[partition])) for partition in before)


def test_what_is_even_stays():
    before = layout((0, 1), (1, 2), (2, 0))
    assert even_layout(before, {}, dict.fromkeys(range(3))) == before


def test_a_new_broker_gets_its_share_and_nothing_else_moves():
    before = layout(*[(n % 3, (n + 1) % 3) for n in range(12)])
    after = even_layout(before, {}, RACKLESS)
    shares = broker_loads(after, {})
    assert {broker: load.replicas for broker, load in shares.items()} == dict.fromkeys(range(4), 6)
    assert moved(before, after) == 6
    assert all(2 <= load.leaders <= 4 for load in shares.values())


def test_a_broker_that_is_left_out_is_emptied():
    before = layout((0, 1), (1, 2), (2, 0), (3, 1))
    after = even_layout(before, {}, dict.fromkeys((0, 1, 2)))
    assert 3 not in broker_loads(after, {})
    assert moved(before, after) == 1


def test_bytes_are_evened_out_without_changing_counts():
    before = layout((0,), (0,), (1,), (1,))
    sizes = {TopicPartition("t", index): size for index, size in enumerate((100, 90, 10, 20))}
    after = broker_loads(even_layout(before, sizes, dict.fromkeys((0, 1))), sizes)
    assert {load.replicas for load in after.values()} == {2}
    assert abs(after[0].bytes - after[1].bytes) <= 20


def test_leaderships_are_evened_out_by_order_alone():
    before = layout((0, 1), (0, 1), (0, 1), (0, 1))
    after = even_layout(before, {}, dict.fromkeys((0, 1)))
    assert moved(before, after) == 0
    assert {load.leaders for load in broker_loads(after, {}).values()} == {2}


@given(st.data())
def test_counts_are_even_replicas_distinct_and_racks_kept(data):
    brokers = data.draw(st.integers(2, 6))
    racks = {broker: f"r{broker % 3}" for broker in range(brokers)}
    count = data.draw(st.integers(1, 20))
    factor = data.draw(st.integers(1, min(3, brokers)))
    choice = st.permutations(range(brokers)).map(lambda order: order[:factor])
    before = layout(*data.draw(st.lists(choice, min_size=count, max_size=count)))
    sizes = {partition: data.draw(st.integers(0, 1000)) for partition in before}
    after = even_layout(before, sizes, racks)
    rackless = even_layout(before, sizes, dict.fromkeys(range(brokers)))
    for partition, replicas in after.items():
        assert len(set(replicas)) == factor
        assert len({racks[b] for b in replicas}) >= len({racks[b] for b in before[partition]})
    shares = [load.replicas for load in broker_loads(rackless, sizes).values()] + [0] * (
        brokers - len(broker_loads(rackless, sizes))
    )
    assert max(shares) - min(shares) <= 1
    before_leaders = max(load.leaders for load in broker_loads(before, sizes).values())
    assert max(load.leaders for load in broker_loads(rackless, sizes).values()) <= max(before_leaders, -(-count // 1))
