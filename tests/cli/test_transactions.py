"""`tidelog transactions`: a hanging transaction found, explained and aborted."""

import json

import pytest

from tests.cli.hanging import LONG_AGO, PRODUCER_ID, hanging_cluster, open_transaction
from tidelog.errors import ApiError


@pytest.fixture(scope="module")
def cluster():
    with hanging_cluster() as started:
        yield started


@pytest.fixture
def on(tidelog, cluster):
    return lambda *words: tidelog("transactions", "--bootstrap-server", cluster.bootstrap, *words)


@pytest.fixture
def open_one(cluster):
    with open_transaction(cluster) as producer:
        yield producer


def rows(result):
    assert result.code == 0, result.err
    return [line.split() for line in result.lines[1:]]


@pytest.mark.usefixtures("open_one")
def test_an_open_transaction_is_described(on):
    ((coordinator, name, *_, state, timeout, _, _, partitions),) = rows(on("describe", "--transactional-id", "app"))
    assert (coordinator, name, state, partitions) == ("0", "app", "Ongoing", "t-1")
    assert int(timeout) > 0
    assert [row[0] for row in rows(on("list"))] == ["app"]
    assert rows(on("list", "--duration-filter", "3600000")) == []


def test_one_that_nobody_will_end_is_found_explained_and_aborted(tidelog, cluster, on):
    hanging = ["t", "0", str(PRODUCER_ID), "3", "-1", "0", str(LONG_AGO)]
    assert [row[:-1] for row in rows(on("find-hanging", "--topic", "t"))] == [hanging]
    place = ("--bootstrap-server", cluster.bootstrap, "--watch-ms", "0", "--json")
    (finding,) = json.loads(tidelog("explain", "partition", *place, "t-0").out)["findings"]
    assert finding["kind"] == "partition.hanging-transaction"
    assert finding["because"][0] == f"Producer {PRODUCER_ID} began it at offset 0, and no coordinator knows of it."
    (help_,) = finding["helps"]
    words = help_.partition("tidelog ")[2].split()
    assert tidelog(*words).code == 0
    assert rows(on("find-hanging", "--broker-id", "0")) == []
    again = tidelog(*words)
    assert (again.code, "Could not find any open transactions" in again.err) == (1, True)


def test_an_id_is_taken_from_its_producer(on, open_one):
    assert on("forceTerminateTransaction", "--transactionalId", "app").code == 0
    with pytest.raises(ApiError, match=r"FENCED|EPOCH"):
        open_one.commit()
    state = rows(on("describe", "--transactional-id", "app"))[0][4]
    assert state in ("CompleteAbort", "PrepareAbort", "Empty")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("describe", "--transactional-id", "nobody"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("describe-producers", "--topic", "nothing", "--partition", "0"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("find-hanging",), "requires --topic or --broker-id"),
        (("find-hanging", "--broker-id", "0", "--partition", "1"), "--partition requires --topic"),
        (("abort", "--topic", "t", "--partition", "0"), "--start-offset"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "3"), "--producer-epoch"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(on, words, sentence):
    result = on(*words)
    assert result.code == 1
    assert sentence in result.err
    assert len(result.err.strip().splitlines()) == 1
