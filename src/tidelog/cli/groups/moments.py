"""Moments and durations as kafka-consumer-groups reads them (ISO 8601)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tidelog.cli.options import ParamType

_DATE_TIME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:?\d{2})?")
_DURATION = re.compile(
    r"(?P<minus>-)?P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class DateTime(ParamType):
    """`YYYY-MM-DDThh:mm:ss.sss`, with or without an offset from UTC (without: UTC), in milliseconds since 1970."""

    name = "datetime"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DATE_TIME.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not YYYY-MM-DDThh:mm:ss.sss.", param, ctx)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no moment: {error}.", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


class Duration(ParamType):
    """`PnDTnHnMnS`, in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(str(value).upper())
        parts = {} if match is None else {name: text for name, text in match.groupdict().items() if text}
        minus = parts.pop("minus", None)
        if not parts:
            self.fail(f"{value!r} is not a duration as PnDTnHnMnS.", param, ctx)
        duration = timedelta(**{name: float(text) for name, text in parts.items()}) // timedelta(milliseconds=1)
        return -duration if minus else duration
