"""Options and ranges of the Spark data source, without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import TopicPartition
from tidelog.spark.offsets import from_json, limited, to_json
from tidelog.spark.options import ReadOptions

places = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    min_size=1,
)


@given(places, st.integers(1, 1500))
def test_a_limit_bounds_the_batch_and_always_makes_progress(found, limit):
    start = {name: first for name, (first, _) in found.items()}
    end = {name: first + more for name, (first, more) in found.items()}
    cut = limited(start, end, limit)
    assert all(start[name] <= cut[name] <= end[name] for name in end)
    covered = sum(cut[name] - start[name] for name in end)
    available = sum(end[name] - start[name] for name in end)
    assert covered <= limit
    assert covered > 0 or available == 0
    assert cut == end or available > limit


def test_offsets_travel_as_sparks_own_connector_writes_them():
    offsets = {TopicPartition("t", 1): 5, TopicPartition("t", 0): 7}
    assert to_json(offsets) == {"t": {"0": 7, "1": 5}}
    assert from_json(to_json(offsets)) == offsets


GOOD = {"kafka.bootstrap.servers": "h:1", "subscribe": "a, b"}


def test_options_are_those_of_sparks_connector_in_any_case():
    options = ReadOptions.of({**GOOD, "STARTINGOFFSETS": "earliest", "maxoffsetspertrigger": "10"})
    assert (options.topics, options.starting, options.limit) == (("a", "b"), "earliest", 10)


@pytest.mark.parametrize(
    ("given_options", "told"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "h:1"}, "subscribe"),
        ({**GOOD, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({**GOOD, "startingOffsets": "yesterday"}, "startingOffsets"),
        ({**GOOD, "startingOffsets": '["t"]'}, "startingOffsets"),
        ({**GOOD, "endingOffsets": "earliest"}, "endingOffsets"),
        ({**GOOD, "endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets"),
        ({**GOOD, "failOnDataLoss": "perhaps"}, "failOnDataLoss"),
        ({**GOOD, "subscribes": "a"}, "subscribes"),
    ],
)
def test_a_wrong_option_names_itself(given_options, told):
    with pytest.raises(ValueError, match=told):
        ReadOptions.of(given_options)
