"""The pipeline flights through SIGKILL of its driver and of a broker: hours and dead letters are those of pandas."""

import pandas as pd
import pytest

from tests.spark.flights_data import MALFORMED, TICK, expected, flights, results, shaped
from tests.spark.kills import BATCH, DAYS, disturbed, fill, records
from tests.spark.records import send

pytestmark = pytest.mark.timeout(900)


def test_flights_end_with_the_hours_of_pandas(spark, cluster, tmp_path):
    topic = fill(cluster, [*MALFORMED])
    with disturbed(spark, cluster, tmp_path, "flights", 4, alone=True, topic=topic, batch=BATCH) as driver:
        send(cluster.bootstrap, topic, [TICK], 1)
        driver.finish(batch="")
    wanted = expected(flights(DAYS))
    told = records(cluster.bootstrap, "flights.delays")
    pd.testing.assert_frame_equal(results([record.value for record in told]), wanted)
    dead = records(cluster.bootstrap, "flights.dead")
    assert len(dead) == len(MALFORMED)
    assert {record.value: dict(record.headers)["tidelog.reason"].decode() for record in dead} == MALFORMED
    table = pd.read_parquet(tmp_path / "checkpoint" / "delays")
    hours = table.assign(hour=table["hour"].dt.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    pd.testing.assert_frame_equal(shaped(hours), wanted)
