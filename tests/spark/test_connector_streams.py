"""Tidelog's source beside Spark's own Kafka connector: a stream with the same options on the same topics, on Tidelog and on
a real Kafka, has the same rows."""

import pytest

from tests.spark import beside
from tests.spark.beside import both, streamed
from tests.spark.records import unique


@pytest.mark.parametrize("case", beside.STREAMS)
def test_a_stream_has_the_same_rows(spark, bootstrap, case, tmp_path):
    def read(source):
        name = unique(source).replace("-", "_")
        return streamed(spark, source, bootstrap, beside.STREAMS[case], tmp_path, name)

    (ours, our_batches), (theirs, their_batches) = both(read)
    assert ours == theirs
    assert bool(ours) == (case not in beside.WITHOUT_ROWS)
    assert (our_batches > 1) == (their_batches > 1)
