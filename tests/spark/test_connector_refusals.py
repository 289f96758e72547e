"""Tidelog's source beside Spark's own Kafka connector: what is wrong for one is wrong for the other, on Tidelog and on a
real Kafka; and what only Tidelog's source sees."""

import pytest

from tests.spark import beside
from tests.spark.beside import batch, streamed


@pytest.mark.parametrize("case", beside.REFUSED)
def test_what_the_connector_refuses_is_refused(spark, bootstrap, case):
    options, ours, theirs = beside.REFUSED[case]
    quick = {"fetchOffset.numRetries": "1", **options}
    with pytest.raises(Exception, match=ours):
        batch(spark, "tidelog", bootstrap, quick).collect()
    with pytest.raises(Exception, match=theirs):
        batch(spark, "kafka", bootstrap, quick).collect()


@pytest.mark.parametrize("case", beside.REFUSED_STREAMS)
def test_what_the_connector_refuses_of_a_stream_is_refused(spark, bootstrap, case, tmp_path):
    options, ours, theirs = beside.REFUSED_STREAMS[case]
    with pytest.raises(Exception, match=ours):
        streamed(spark, "tidelog", bootstrap, options, tmp_path, "refused")
    with pytest.raises(Exception, match=theirs):
        streamed(spark, "kafka", bootstrap, options, tmp_path, "refused")


@pytest.mark.parametrize("case", beside.STRICTER)
def test_what_the_connector_overlooks_is_refused(spark, bootstrap, case):
    options, told = beside.STRICTER[case]
    with pytest.raises(Exception, match=told):
        batch(spark, "tidelog", bootstrap, {"fetchOffset.numRetries": "1", **options}).collect()
