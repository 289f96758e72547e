"""Rates and buckets, against what they mean."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.node.quotas import TokenBucket, WindowedRate

SAMPLES, WINDOW_MS = 11, 1000


def naive_throttle_ms(records, bound, now):
    """From all that was ever recorded, with the windows that it opened."""
    windows = []
    for moment, value in records:
        if not windows or moment - windows[-1][0] >= WINDOW_MS:
            windows.append([moment, 0.0])
        windows[-1][1] += value
    counted = [window for window in windows if window[0] > now - SAMPLES * WINDOW_MS]
    if not counted:
        return 0
    elapsed = now - counted[0][0]
    span = max(elapsed + max(0, SAMPLES - 1 - elapsed // WINDOW_MS) * WINDOW_MS, WINDOW_MS)
    excess = sum(value for _, value in counted) - bound * span / 1000
    return round(excess / bound * 1000) if excess > 0 else 0


STEPS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 5000)), max_size=40)


@given(STEPS, st.integers(1, 2000), st.integers(0, 30_000))
def test_the_rate_is_what_was_recorded_within_its_windows(steps, bound, later):
    rate, now, records = WindowedRate(SAMPLES, WINDOW_MS), 5, []
    for pause, value in steps:
        now += pause
        rate.record(value, now)
        records.append((now, value))
        assert abs(rate.throttle_ms(bound, now) - naive_throttle_ms(records, bound, now)) <= 1
    assert abs(rate.throttle_ms(bound, now + later) - naive_throttle_ms(records, bound, now + later)) <= 1


@given(st.integers(100, 10_000), st.integers(1, 100))
def test_who_waits_as_told_keeps_to_the_bound(bound, percent):
    rate, now = WindowedRate(SAMPLES, WINDOW_MS), 0
    sent, size = 0, bound * percent // 100 + 1
    for _ in range(20_000 // percent):
        rate.record(size, now)
        sent += size
        now += rate.throttle_ms(bound, now) + 1
    burst = bound * (SAMPLES - 1) * WINDOW_MS / 1000
    assert sent <= 1.1 * bound * now / 1000 + burst + size


def test_a_burst_at_the_beginning_is_no_rate():
    rate = WindowedRate(SAMPLES, WINDOW_MS)
    rate.record(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(1000, 0) == 1
    assert rate.throttle_ms(1000, SAMPLES * WINDOW_MS) == 0


def test_a_bucket_fills_and_lends():
    bucket = TokenBucket(2.0, 20.0, now=0)
    bucket.take(25, 0)
    assert bucket.throttle_ms(0) == 2500
    assert bucket.throttle_ms(2000) == 500
    assert bucket.throttle_ms(2500) == 0
    bucket.take(20, 1_000_000)
    assert bucket.throttle_ms(1_000_000) == 0
    bucket.take(1, 1_000_000)
    assert bucket.throttle_ms(1_000_000) == 500
