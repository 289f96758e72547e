"""Records of internal topics as lines of JSON: Kafka's formatters, by the names of old and new brokers' tools."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.cli.console.options import check_known
from tidelog.cli.console.printing import line_format
from tidelog.cli.options import usage

Line = Callable[[Any], bytes]
"""A record as what is printed of it; b"" where nothing is."""

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
NOTHING = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"
OFFSETS = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
GROUPS = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
TRANSACTIONS = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"

OLDER_NAMES = {
    "kafka.tools.DefaultMessageFormatter": DEFAULT,
    "kafka.tools.NoOpMessageFormatter": NOTHING,
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": OFFSETS,
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": GROUPS,
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": TRANSACTIONS,
}


def formatter(name: str, properties: Mapping[str, str]) -> Line:
    """The formatter of that name, also by the last part of it; UsageError for any other."""
    wanted = OLDER_NAMES.get(name.strip(), name.strip())
    named = {each.rpartition(".")[2]: each for each in (DEFAULT, NOTHING, OFFSETS, GROUPS, TRANSACTIONS)}
    wanted = named.get(wanted, wanted)
    if wanted == DEFAULT:
        return line_format(properties).line
    check_known(properties, (), "--formatter-property of this formatter")
    if wanted == NOTHING:
        return lambda _record: b""
    if wanted not in named.values():
        raise usage(f"--formatter {name!r} is not known; there is {', '.join([*named.values(), *OLDER_NAMES])}.")
    return _json_lines(wanted)


def _json_lines(name: str) -> Line:
    from tidelog.cli import internal_records as internal

    formats, only = {
        OFFSETS: (internal.GROUP_TOPIC, internal.COMMITTED_OFFSETS),
        GROUPS: (internal.GROUP_TOPIC, internal.GROUP_METADATA),
        TRANSACTIONS: (internal.TRANSACTION_TOPIC, internal.TRANSACTIONS),
    }[name]

    def line(record: Any) -> bytes:
        if record.key is None:
            return b""
        found = internal.shown(formats, record.key, record.value, only)
        return b"" if found is None else json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    return line
