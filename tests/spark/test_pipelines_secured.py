"""Pipelines on a real Kafka that lets in only who has a password, over TLS: what they look up and write as well as what they
read."""

import json

import pytest

from tests.compatibility.differential import secured
from tests.spark.records import numbers, send
from tests.spark.test_pipelines_mirror import read
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark.options import BadOption
from tidelog.spark.pipelines.plan import Plan
from tidelog.spark.pipelines.running import run
from tidelog.spark.pipelines.session import STATE_STORE
from tidelog.spark.pipelines.table import PIPELINES

OPTIONS = {
    "flights": {"topic": "home"},
    "lag": {"topics": "home", "groups": "readers"},
    "mirror": {"topics": "home", "prefix": "copy.", "groups": "readers"},
    "lake": {"topic": "home"},
}


@pytest.fixture(scope="module")
def kafka(secured_kafka):
    """Two addresses, behind TLS and SASL and not; a topic with five records of which a group has read three; and the
    options of who may read them."""
    ports, certificate = secured_kafka
    behind, plain = f"127.0.0.1:{ports['SASL_SSL']}", f"127.0.0.1:{ports['PLAINTEXT']}"
    send(plain, "home", numbers(0, 5))
    with Consumer(plain, "readers") as consumer:
        consumer.commit({TopicPartition("home", 0): 3})
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(certificate),
        "kafka.sasl.jaas.config": secured.CLIENT,
        "kafka.fetch.max.bytes": "1000000",  # of consumers alone
    }
    return behind, plain, options


def plan_of(name, kafka, folder, **more):
    behind, plain, options = kafka
    own = {"mirror": {"to": plain}, "lake": {"path": str(folder / "table")}}.get(name, {})
    return Plan(behind, folder, PIPELINES[name].complete({**OPTIONS[name], **own}), {**options, **more}, once=True)


def told(plain, topic):
    return [record for records in read(plain, topic).values() for record in records]


def test_a_mirror_reads_what_is_secured(spark, kafka, tmp_path):
    run(PIPELINES["mirror"].stages(spark, plan_of("mirror", kafka, tmp_path)), once=True, on_progress=lambda _: None)
    assert [record.value for record in told(kafka[1], "copy.home")] == numbers(0, 5)


def test_a_lag_is_told_to_what_is_secured(spark, conf, kafka, tmp_path):
    conf("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    run(PIPELINES["lag"].stages(spark, plan_of("lag", kafka, tmp_path)), once=True, on_progress=lambda _: None)
    rows = [json.loads(record.value) for record in told(kafka[1], "groups.lag")]
    assert [(row["name"], row["committed"], row["lag"]) for row in rows] == [("readers", 3, 2)]


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_looked_up_before_spark_begins_is_reached_or_the_option_is_named(kafka, tmp_path, name):
    assert PIPELINES[name].stages(None, plan_of(name, kafka, tmp_path))
    refused = {"kafka.sasl.jaas.config": secured.CLIENT.replace("wonder land", "looking glass")}
    with pytest.raises(BadOption, match=r"option 'kafka.sasl.jaas.config' .* refuses user 'alice'"):
        PIPELINES[name].stages(None, plan_of(name, kafka, tmp_path, **refused))
