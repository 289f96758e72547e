"""Settings of a pipeline's session: what the user chose stays, and only executors on this machine are given its loopback
address."""

import os
import sys
from pathlib import Path

import pytest

from tidelog.spark import audit_session
from tidelog.spark.pipelines.session import chosen_settings, session


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local-cluster[2,1,1024]"])
def test_a_driver_whose_executors_are_here_listens_on_the_loopback_address(master):
    assert chosen_settings(Path("log"), {"spark.master": master})["spark.driver.host"] == "127.0.0.1"
    assert audit_session.MASTERS.fullmatch(master)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_a_driver_of_a_cluster_is_reachable_from_it(master):
    chosen = chosen_settings(Path("log"), {"spark.master": master})
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(chosen)
    assert audit_session.MASTERS.fullmatch(master)


def test_given_settings_take_precedence():
    given = {"spark.driver.host": "here", "spark.app.name": "mine"}
    chosen = chosen_settings(Path("log"), given)
    assert {name: chosen[name] for name in given} == given
    assert chosen["spark.master"] == "local[2]"


class Started(Exception):
    pass


@pytest.mark.parametrize(
    ("environment", "settings", "wanted"),
    [
        ({}, {}, sys.executable),
        ({"PYSPARK_PYTHON": "/cluster/python"}, {}, "/cluster/python"),
        ({}, {"spark.pyspark.python": "./env/bin/python"}, "./env/bin/python"),
    ],
)
def test_executors_run_the_python_that_was_chosen(tmp_path, monkeypatch, environment, settings, wanted):
    def launched(_conf, _streams):
        raise Started

    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pyspark.SparkConf", type("Conf", (), {"setAll": lambda _, pairs: dict(pairs)}))
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launched)
    with pytest.raises(Started), session(tmp_path / "log", settings):
        pass
    assert os.environ["PYSPARK_PYTHON"] == wanted
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable, "this process is the driver"


class SubmittedJvm:
    """In place of the gateway of spark-submit, which has a JVM and no process of this one."""

    jvm, proc = "the JVM of spark-submit", None

    def shutdown(self):
        self.is_shut = True


class Conf:
    """Has spark-submit's settings if it is given a JVM."""

    def __init__(self, _jvm=None):
        self.pairs = {"spark.master": "spark://host:7077", "spark.app.name": "submitted"} if _jvm else {}

    def setAll(self, pairs):  # noqa: N802  the name of PySpark
        self.pairs.update(pairs)
        return self

    def getAll(self):  # noqa: N802  the name of PySpark
        return list(self.pairs.items())


def test_under_spark_submit_its_jvm_and_its_settings_are_used(tmp_path, monkeypatch):
    gateway, contexts = SubmittedJvm(), []

    def context(gateway, conf):
        contexts.append((gateway, conf.pairs))
        raise Started

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda: gateway)
    monkeypatch.setattr("pyspark.SparkConf", Conf)
    monkeypatch.setattr("pyspark.SparkContext", context)
    with pytest.raises(Started), session(tmp_path / "log", {"spark.app.name": "given"}):
        pass
    ((used, settings),) = contexts
    assert used is gateway
    assert gateway.is_shut
    assert settings["spark.master"] == "spark://host:7077", "not the default of pipelines"
    assert settings["spark.app.name"] == "given"
    assert settings["spark.sql.session.timeZone"] == "UTC", "what pipelines need"
    assert "spark.driver.host" not in settings
