"""The pipeline flights: closed hours are pandas' own, row by row, and whatever is in none of them is told with the reason."""

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.spark.flights_data import DELAY, MALFORMED, TICK, expected, flights, results, send_spread, values
from tests.spark.records import create, send
from tests.spark.settings import configured
from tidelog.spark.pipelines.flights import outcomes, weather_table
from tidelog.spark.pipelines.hourly_delays import HOUR_MS, Hour, from_text, is_closed, take_closed, to_text
from tidelog.spark.pipelines.plan import Plan
from tidelog.spark.pipelines.session import STATE_STORE

PARTITIONS = 3
FLIGHT = some.tuples(some.sampled_from("abc"), some.none() | some.just(4.0), some.none() | some.floats(-9, 99))


@given(some.lists(some.tuples(some.integers(0, 5), FLIGHT)), some.integers(0, 7))
def test_hours_survive_as_a_text_and_close_once(rows, at):
    hours = {}
    for start, (identity, departure, arrival) in rows:
        hours.setdefault(start * HOUR_MS, Hour()).add(identity, departure, arrival)
    again = from_text(to_text(hours))
    assert {start: (hour.seen, hour.counts) for start, hour in again.items()} == {
        start: (hour.seen, hour.counts) for start, hour in hours.items()
    }
    closed = take_closed(again, at * HOUR_MS)
    assert closed.keys() | again.keys() == hours.keys()
    assert not closed.keys() & again.keys()
    assert all(is_closed(start, at * HOUR_MS) for start in closed)
    assert not any(is_closed(start, at * HOUR_MS) for start in again)


@pytest.fixture(scope="module")
def found(spark, tides, tmp_path_factory):
    """What becomes of flights with duplicates, of malformed records, and of flights that come after the tick."""
    folder, topic = tmp_path_factory.mktemp("flights"), create(tides, "flights", PARTITIONS)
    frame = flights(10)
    rows = values(frame)
    again = [row for row in rows[-200:] for _ in range(2)]
    send_spread(tides.bootstrap, topic, rows + again, PARTITIONS)
    send(tides.bootstrap, topic, [*MALFORMED, None], 0)
    plan = Plan(tides.bootstrap, folder, {"batch": "4000"}, once=True)

    def run():
        records = plan.records(spark, topic)
        rows = outcomes(records, weather_table(spark), results="told", dead="dead", delay=DELAY)
        plan.start(
            spark, rows.writeStream.format("parquet").option("path", str(folder / "rows")), "hours"
        ).awaitTermination()

    with configured(spark, "spark.sql.streaming.stateStore.providerClass", STATE_STORE):
        run()
        send(tides.bootstrap, topic, [TICK], 1)
        run()
        send(tides.bootstrap, topic, rows[:3], 2)
        run()
    return topic, spark.read.parquet(str(folder / "rows")).toPandas()


def test_hours_are_those_of_pandas(found):
    _, rows = found
    told = rows[rows.topic == "told"]
    pd.testing.assert_frame_equal(results([bytes(value) for value in told.value]), expected(flights(10)))
    names = {f"{row['carrier']}|{row['origin']}|{row['hour'][:13]}" for row in map(json.loads, told.value)}
    assert {bytes(key).decode() for key in told.key} == names


def test_dead_letters_say_why_and_where_they_were(found):
    topic, rows = found
    dead = rows[rows.topic == "dead"]
    reasons = [
        (
            None if row.value is None else bytes(row.value),
            {h["key"]: bytes(h["value"]).decode() for h in row.headers},
        )
        for row in dead.itertuples()
    ]
    wanted = {**MALFORMED, None: "no value", **dict.fromkeys(values(flights(10))[:3], "late")}
    assert {value: headers["tidelog.reason"] for value, headers in reasons} == wanted
    assert len(reasons) == len(wanted)
    assert {headers["tidelog.topic"] for _, headers in reasons} == {topic}
    assert len({(headers["tidelog.partition"], headers["tidelog.offset"]) for _, headers in reasons}) == len(wanted)
