"""Real flights as records, what else comes with them, and what pandas makes of them."""

import json
from functools import cache

import pandas as pd

from tests.spark.records import send
from tidelog.spark.pipelines.flights import JOINED, packaged
from tidelog.spark.pipelines.hourly_delays import COUNTS

DELAY = "2 days"
TICK = b'{"time_hour":"2014-06-01T00:00:00Z"}'
MALFORMED = {
    b"no JSON at all": "no JSON of a flight",
    b'{"carrier":"UA","time_hour":"2013-01-01T10': "no JSON of a flight",
    b'{"carrier":"UA","origin":"EWR","flight":1,"sched_dep_time":5,"time_hour":"soon"}': "no JSON of a flight",
    b'{"carrier":"UA","origin":"EWR","flight":"x","sched_dep_time":5,"time_hour":"2013-01-01T10:00:00Z"}': "no JSON of a flight",
    b'{"carrier":"UA","origin":"EWR","flight":1,"sched_dep_time":5}': "no time_hour",
    b'{"carrier":"UA","flight":1,"sched_dep_time":5,"time_hour":"2013-01-01T10:00:00Z"}': "no origin",
    b'{"origin":"EWR","flight":1,"sched_dep_time":5,"time_hour":"2013-01-01T10:00:00Z"}': "no carrier",
    b"[]": "no JSON of a flight",
    b"\xff\xfe": "no JSON of a flight",
}
"""Records that are no flights, and what is said of each."""
KEY = ["carrier", "origin", "hour"]


@cache
def flights(days: int) -> pd.DataFrame:
    """The flights of the first days of 2013, in the order of their hours."""
    frame = pd.read_csv(packaged("flights.csv.zip"))
    frame = frame[(frame.month == 1) & (frame.day <= days)]
    return frame.sort_values(["time_hour", "carrier", "flight"], kind="stable", ignore_index=True)


def values(frame: pd.DataFrame) -> list[bytes]:
    """Each row as JSON, unknown as null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [json.dumps(row).encode() for row in rows]


def send_spread(bootstrap: str, topic: str, records: list[bytes | None], partitions: int) -> None:
    for partition in range(partitions):
        send(bootstrap, topic, records[partition::partitions], partition)


def expected(frame: pd.DataFrame) -> pd.DataFrame:
    """Hours by carrier and airport, by pandas alone."""
    weather = pd.read_csv(packaged("weather.csv"), usecols=["origin", "time_hour", *JOINED])
    found = frame.drop_duplicates().groupby(["carrier", "origin", "time_hour"])
    counted = found.agg(
        flights=("flight", "size"),
        cancelled=("dep_delay", lambda delays: int(delays.isna().sum())),
        departed=("dep_delay", "count"),
        departure_delay=("dep_delay", "sum"),
        arrived=("arr_delay", "count"),
        arrival_delay=("arr_delay", "sum"),
        worst_arrival_delay=("arr_delay", "max"),
    ).reset_index()
    joined = counted.merge(weather, on=["origin", "time_hour"], how="left").rename(columns={"time_hour": "hour"})
    return shaped(joined.assign(hour=joined["hour"].str.replace("Z", ".000Z", regex=False)))


def shaped(frame: pd.DataFrame) -> pd.DataFrame:
    """In one order of rows and columns, with numbers as numbers."""
    numbers = dict.fromkeys((*COUNTS, *JOINED), "float64")
    found = frame.reindex(columns=[*KEY, *COUNTS, *JOINED]).astype(numbers)
    return found.sort_values(KEY, ignore_index=True)


def results(records: list[bytes]) -> pd.DataFrame:
    """The topic of results as a table."""
    return shaped(pd.DataFrame([json.loads(record) for record in records]))
