"""The arithmetic of replication throttles, on a clock of milliseconds."""

import random
from types import SimpleNamespace

import pytest

from tidelog.alarms import NEVER
from tidelog.config.broker import BrokerConfig
from tidelog.model import Time, TopicPartition
from tidelog.partition.replication_throttle import MOST_DEBT_MS, NO_LIMIT, ReplicationThrottles, Throttle


def throttle(rate, *entries, broker=1):
    made = Throttle(broker, lambda config: config.entries)
    made.set_rate(rate, 0)
    return made, SimpleNamespace(entries=list(entries))


def partition(config, index=0, topic="t"):
    return SimpleNamespace(name=TopicPartition(topic, index), config=config)


@pytest.mark.parametrize(
    ("entries", "covered"),
    [((), []), (("none",), []), (("*",), [0, 1, 2]), (("0:1", "2:1", "1:2"), [0, 2])],
)
def test_lists_name_partitions_by_broker(entries, covered):
    made, config = throttle(1000, *entries)
    assert [index for index in range(3) if made.covers(partition(config, index))] == covered


def test_a_changed_list_is_seen_and_without_a_rate_nothing_is_covered():
    made, config = throttle(1000, "0:1")
    assert made.covers(partition(config))
    assert not made.covers(partition(SimpleNamespace(entries=["1:1"])))
    made.set_rate(NO_LIMIT, 5)
    assert not made.covers(partition(config))
    assert made.room(10) == NO_LIMIT
    assert made.free_at is None


@pytest.mark.parametrize("largest", [100, 5_000, 300_000])
@pytest.mark.parametrize("rate", [10_000, 1_000_000])
def test_over_windows_the_rate_holds_within_a_tenth_whatever_the_batches(rate, largest):
    made, _ = throttle(rate, "*")
    chance = random.Random(rate + largest)
    now, copied = 0, []
    end = 11_000 + 40 * largest * 1000 // rate
    while now < end:
        if made.room(now):
            size = chance.randint(1, largest)
            made.spend(size, now)
            copied.append((now, size))
            now += chance.random() < 0.01
        else:
            assert made.free_at > now
            now = made.free_at
    total = sum(size for _, size in copied)
    assert abs(total / (end / 1000) - rate) <= 0.1 * rate
    for start in range(0, end - 11_000, 5_000):
        window = sum(size for moment, size in copied if start <= moment < start + 11_000)
        assert window <= 11 * rate + rate + largest


def test_time_that_was_not_used_is_credit_for_a_second_at_most():
    made, _ = throttle(1000, "*")
    assert made.room(60_000) == 1000
    made.spend(1001, 60_000)
    assert made.room(60_000) == 0
    assert made.free_at == 60_001
    assert made.room(60_001) == 100  # a portion at least, or answers would be of single bytes


def test_what_is_spoken_for_counts():
    made, _ = throttle(1000, "*")
    assert made.room(1000, 999) == 100
    assert made.room(1000, 1001) == 0


def test_held_partitions_are_let_go_once():
    made, _ = throttle(1000, "*")
    made.spend(500, 0)
    assert made.next_deadline is None
    assert made.free_at == 500
    made.held["p"] = None
    assert made.next_deadline == 500
    assert made.release(499) == []
    assert made.release(500) == ["p"]
    assert made.release(501) == []


def test_a_rate_of_nothing_lets_nothing_pass_until_it_is_raised():
    made, _ = throttle(0, "*")
    assert made.room(10_000) == 0
    made.held["p"] = None
    assert made.next_deadline is None
    made.set_rate(NO_LIMIT, 20_000)
    assert made.release(20_000) == ["p"]


def test_what_replicas_in_sync_copied_long_ago_holds_nobody_back():
    made, _ = throttle(1000, "*")
    for second in range(3_600):
        made.spend(5_000, second * 1000)  # an hour at five times the rate, which nobody in sync is held to
    made.room(3_599_000)
    assert made.free_at <= 3_599_000 + 10_000


def test_a_debt_grows_to_its_limit_and_no_further():
    made, _ = throttle(1000, "*")
    for _ in range(4):
        made.spend(5_000, 0)
    assert made.free_at == MOST_DEBT_MS


def test_the_alarm_follows_what_is_held_and_the_rate():
    made, _ = throttle(1000, "*")
    made.spend(500, 0)
    assert made.alarm.at == NEVER
    made.hold(TopicPartition("t", 0))
    assert made.alarm.at == made.next_deadline == 500
    made.spend(100, 0)
    assert made.alarm.at == made.next_deadline == 600
    made.set_rate(2000, 100)
    assert made.alarm.at == made.next_deadline == 100
    assert made.release(100)
    assert made.alarm.at == NEVER


def replication_throttles(find=lambda topic, index: None, **rates):
    made = ReplicationThrottles(1, find)
    options = {f"{name}.replication.throttled.rate": str(rate) for name, rate in rates.items()}
    made.configure(BrokerConfig({"broker.id": "1", **options}), 0)
    return made


def test_each_direction_has_the_rate_of_its_option():
    made = replication_throttles(leader=700, follower=900)
    assert (made.leader.rate, made.follower.rate) == (700, 900)


def test_followers_hear_of_what_was_held_back_from_them():
    news = []
    held = {TopicPartition("t", 0), TopicPartition("gone", 1)}
    there = SimpleNamespace(mark_dirty=lambda: news.append("t-0"))
    made = replication_throttles(lambda topic, index: there if topic == "t" else None, leader=1000)
    made.leader.spend(500, 0)
    for name in held:
        made.leader.hold(name)
    made.wake(Time(499, 0))
    assert news == []
    made.wake(Time(500, 0))
    assert news == ["t-0"]


def test_credit_that_is_spent_to_the_last_byte_is_no_debt():
    made, _ = throttle(1000, "*")
    assert made.room(1000) == 1000
    made.spend(1000, 1000)
    assert made.free_at is None
    made.spend(1, 1000)
    assert made.free_at == 1001
