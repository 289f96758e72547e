"""The sink on a real Kafka that lets in only who has a password, over TLS: everything that it says to the cluster, and not
the rows alone, goes through such connections."""

import pytest

from tests.compatibility.differential import secured
from tidelog.spark.options import BadOption
from tidelog.spark.writing.writers import batch_writer, stream_writer

WHO = {
    "PLAIN": {"kafka.sasl.jaas.config": secured.CLIENT},
    "SCRAM": {"kafka.sasl.jaas.config": secured.SCRAM, "kafka.sasl.mechanism": "SCRAM-SHA-512"},
}
ROWS = 200


@pytest.fixture(scope="module")
def reached(secured_kafka):
    """The options that lead to the cluster, without those of a user."""
    ports, certificate = secured_kafka
    return {
        "kafka.bootstrap.servers": f"127.0.0.1:{ports['SASL_SSL']}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(certificate),
    }


def read(spark, options, topic):
    """What counts, in order."""
    more = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    frame = spark.read.format("tidelog").options(**options, **more).load()
    return sorted(int(row.value) for row in frame.collect())


@pytest.mark.parametrize(("who", "once"), [("PLAIN", "false"), ("SCRAM", "true")])
def test_a_batch_and_a_stream_are_written_and_read_back(spark, reached, tmp_path, who, once):
    options, named = {**reached, **WHO[who]}, f"{who}-{once}"
    frame = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as value")
    writing = {**options, "exactlyOnce": once}
    frame.write.format("tidelog").mode("append").options(**writing, topic=f"batch-{named}").save()
    assert read(spark, options, f"batch-{named}") == list(range(ROWS))

    reading = {**options, "subscribe": f"batch-{named}", "startingOffsets": "earliest"}
    for batches in (1, 2):
        rows = spark.readStream.format("tidelog").options(**reading).load().select("value")
        writer = rows.writeStream.format("tidelog").options(**writing, topic=f"stream-{named}")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        assert read(spark, options, f"stream-{named}") == sorted(list(range(ROWS)) * batches)
        frame.write.format("tidelog").mode("append").options(**writing, topic=f"batch-{named}").save()


def test_a_job_that_fails_leaves_nothing_open(spark, reached):
    options = {**reached, **WHO["PLAIN"], "topic": "failed", "exactlyOnce": "true"}
    failing = f"if(id = {ROWS - 1}, cast(raise_error('on purpose') as string), cast(id as string)) as value"
    with pytest.raises(Exception, match="on purpose"):
        spark.range(0, ROWS, 1, 2).selectExpr(failing).write.format("tidelog").mode("append").options(**options).save()
    fine = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as value")
    fine.write.format("tidelog").mode("append").options(**options).save()
    assert read(spark, {**reached, **WHO["PLAIN"]}, "failed") == list(range(ROWS))


WRONG = {
    "password": (
        {"kafka.sasl.jaas.config": secured.CLIENT.replace("wonder land", "looking glass")},
        "option 'kafka.sasl.jaas.config' or 'kafka.sasl.mechanism': 127.0.0.1 refuses user 'alice'",
    ),
    "mechanism": (
        {**WHO["PLAIN"], "kafka.sasl.mechanism": "SCRAM-SHA-256"},
        "option 'kafka.sasl.jaas.config' or 'kafka.sasl.mechanism': 127.0.0.1 supports .* not sasl.mechanism SCRAM-SHA-256",
    ),
    "certificate": (
        {**WHO["PLAIN"], "kafka.ssl.truststore.location": "/etc/ssl/certs/ca-certificates.crt"},
        "option 'kafka.ssl.truststore.location': the certificate of 127.0.0.1 is not trusted",
    ),
}


@pytest.mark.parametrize("once", ["false", "true"])
@pytest.mark.parametrize("case", WRONG)
def test_who_is_not_let_in_is_told_the_option_before_a_batch_is_planned(reached, case, once):
    more, told = WRONG[case]
    options = {**reached, **more, "topic": "any", "exactlyOnce": once}
    for refused in (
        lambda: batch_writer(options, _schema(), overwrite=False),
        lambda: stream_writer(options, _schema()),
    ):
        with pytest.raises(BadOption, match=told) as raised:
            refused()
        assert "glass" not in str(raised.value)
        assert "wonder" not in str(raised.value)


def test_a_query_says_so_on_the_driver(spark, reached):
    options = {**reached, **WRONG["password"][0], "topic": "any"}
    frame = spark.range(1).selectExpr("'v' as value")
    with pytest.raises(Exception, match=r"option 'kafka.sasl.jaas.config' .* refuses user 'alice'") as raised:
        frame.write.format("tidelog").mode("append").options(**options).save()
    assert "glass" not in str(raised.value)


def _schema():
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField("value", StringType())])
