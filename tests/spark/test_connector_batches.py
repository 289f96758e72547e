"""Tidelog's source beside Spark's own Kafka connector: a batch with the same options on the same topics, on Tidelog and on
a real Kafka, has the same rows."""

import pytest

from tests.spark import beside
from tests.spark.beside import batch, both, rows


@pytest.mark.parametrize("case", beside.BATCHES)
def test_a_batch_has_the_same_rows(spark, bootstrap, case):
    frames = [batch(spark, source, bootstrap, beside.BATCHES[case]) for source in ("tidelog", "kafka")]
    assert frames[0].schema == frames[1].schema
    ours, theirs = both(lambda source: rows(frames[source == "kafka"]))
    assert ours == theirs
    assert bool(ours) == (case != "no offsets")
