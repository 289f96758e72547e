"""Tidelog's source beside Spark's own Kafka connector: what is wrong for one is wrong for the other, and what only Tidelog's
source sees. On Tidelog, and on a real Kafka where brokers are asked."""

import pytest

from tests.spark import beside
from tests.spark.beside import batch, streamed


@pytest.mark.parametrize("case", beside.REFUSED_OPTIONS)
def test_options_that_the_connector_refuses_are_refused(spark, tidelog_broker, case):
    refused(spark, tidelog_broker, *beside.REFUSED_OPTIONS[case])


@pytest.mark.parametrize("case", beside.REFUSED)
def test_what_the_connector_refuses_is_refused(spark, bootstrap, case):
    refused(spark, bootstrap, *beside.REFUSED[case])


def refused(spark, bootstrap, options, ours, theirs):
    quick = {"fetchOffset.numRetries": "1", **options}
    with pytest.raises(Exception, match=ours):
        batch(spark, "tidelog", bootstrap, quick).collect()
    with pytest.raises(Exception, match=theirs):
        batch(spark, "kafka", bootstrap, quick).collect()


@pytest.mark.parametrize("case", beside.REFUSED_OPTIONS_OF_STREAMS)
def test_options_that_the_connector_refuses_of_a_stream_are_refused(spark, tidelog_broker, case, tmp_path):
    refused_stream(spark, tidelog_broker, tmp_path, *beside.REFUSED_OPTIONS_OF_STREAMS[case])


@pytest.mark.parametrize("case", beside.REFUSED_STREAMS)
def test_what_the_connector_refuses_of_a_stream_is_refused(spark, bootstrap, case, tmp_path):
    refused_stream(spark, bootstrap, tmp_path, *beside.REFUSED_STREAMS[case])


def refused_stream(spark, bootstrap, folder, options, ours, theirs):
    with pytest.raises(Exception, match=ours):
        streamed(spark, "tidelog", bootstrap, options, folder, "refused")
    with pytest.raises(Exception, match=theirs):
        streamed(spark, "kafka", bootstrap, options, folder, "refused")


@pytest.mark.parametrize("case", beside.STRICTER)
def test_what_the_connector_overlooks_is_refused(spark, tidelog_broker, case):
    options, told = beside.STRICTER[case]
    with pytest.raises(Exception, match=told):
        batch(spark, "tidelog", tidelog_broker, {"fetchOffset.numRetries": "1", **options}).collect()
