"""Tables of Spark's catalog: `CREATE TABLE flights USING tidelog OPTIONS ('subscribe' 'flights', …)`, for reading.

Spark 4.3 gives a table's options to a source that is written in Python only while the table is created, when it asks
for the columns. So the options are kept with the columns, as metadata of the first, which the catalog stores and Spark
hands over with each read. Metadata travels with the columns, also into files, so passwords are refused.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidelog.spark.options import BadOption

KEPT = "tidelog.options"
_PROVIDER = "provider"
_OPTION = "option."
_SECRETS = ("password", "jaas", "secret", "keystore.key")


def is_table(options: Mapping[str, str]) -> bool:
    """Whether these are the properties of a table that is being created, and not the options of a read."""
    return _PROVIDER in options and any(name.startswith(_OPTION) for name in options)


def options_of(properties: Mapping[str, str]) -> dict[str, str]:
    """What OPTIONS names. BadOption if it has a secret."""
    found = {name.removeprefix(_OPTION): text for name, text in properties.items() if name.startswith(_OPTION)}
    for name in found:
        if any(word in name.lower() for word in _SECRETS):
            raise BadOption(
                f"option {name!r} cannot be stored in a catalog, which would show it: use CREATE TEMPORARY VIEW … "
                "USING tidelog instead"
            )
    return found


def with_options(columns: Mapping[str, str], options: Mapping[str, str]) -> Any:
    """The columns, by name and type. In the process that is asked for them Spark cannot parse types."""
    from pyspark.sql import types

    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    )
    kinds = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
    }
    fields = [types.StructField(name, kinds.get(kind, types.ArrayType(header))) for name, kind in columns.items()]
    fields[0].metadata = {KEPT: json.dumps(options)}
    return types.StructType(fields)


def kept_options(schema: Any) -> dict[str, str]:
    """The options that the columns of a table have with them; none for other columns."""
    text = schema.fields[0].metadata.get(KEPT) if schema.fields else None
    return json.loads(text) if text else {}
