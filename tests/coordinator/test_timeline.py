from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.timeline import Timeline

changes = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=30)


@given(changes, st.lists(st.integers(0, 30), max_size=5))
def test_both_views_equal_a_replay_up_to_their_offsets(steps, high_watermarks):
    timeline = Timeline()
    newest = {}
    for offset, (key, value) in enumerate(steps):
        timeline.set(key, value, offset)
        newest = {**newest, key: value}
    for high_watermark in sorted(high_watermarks):
        timeline.commit(high_watermark)
        committed = dict(steps[:high_watermark])
        committed = {key: value for key, value in committed.items() if value is not None}
        assert dict(timeline.committed_items()) == committed
        assert {key: timeline.committed(key) for key in "abc"} == {key: committed.get(key) for key in "abc"}
    assert timeline.newest == {key: value for key, value in newest.items() if value is not None}


def test_nothing_is_kept_for_what_is_committed():
    timeline = Timeline()
    timeline.set("a", 1, 0)
    timeline.set("a", None, 1)
    assert not timeline.is_empty
    timeline.commit(2)
    assert timeline.is_empty
