"""What may differ, and where docs/differences.md says why. A difference that no line here allows fails the test; a line
that allows nothing fails it, too.

Each line: the heading in the document, a pattern of the script's label, a pattern of the field's path.
"""

import re
from typing import NamedTuple


class Allowed(NamedTuple):
    heading: str
    label: str
    path: str
    ours: object = ...
    """What Tidelog must answer there, where that matters."""

    def covers(self, label: str, path: str, ours: object) -> bool:
        return bool(re.search(self.label, label) and re.search(self.path, path)) and self.ours in (..., ours)


MESSAGE = r"error_message$"

ALLOWED = (
    Allowed("Refusals say why", r"", MESSAGE, "some"),
    Allowed("Null records", r"^null records", r"^$"),
    Allowed("Bytes behind a batch", r"a byte behind the batch", r""),
    Allowed("Records inside a batch", r"compressed bytes that are not|a record with a wrong offset", r""),
    Allowed("Records inside a batch", r"^what has been appended", r"records$"),
    Allowed("Records inside a batch", r"^a timestamp far ahead|^timely: too", r"record_errors"),
    Allowed(
        "Where the log starts, in a refusal",
        r"^(two batches|magic [01]|the first \d+ bytes|a batch of length 2147483647) .*Produce",
        r"log_start_offset$",
        0,
    ),
    Allowed("Failures that have a code of their own", r"^a header with attributes [57]", r"error_code$"),
    Allowed("Failures that have a code of their own", r"^a batch of length 2147483647", r"error_code$"),
    Allowed("Failures that have a code of their own", r"^far too many \[CreatePartitions", r"error_code$"),
    Allowed(
        "Failures that have a code of their own", r"^bad names \[DescribeTopicPartitions", r"error_code$|operations$"
    ),
    Allowed("Failures that have a code of their own", r"^c: fetch of nobody", r"error_code$"),
    Allowed("Failures that have a code of their own", r"^replace twice \[AlterConfigs", r"^$"),
    Allowed("Limits below zero", r"max_bytes -1 \[Fetch|^an unknown isolation level \[Fetch", r""),
    Allowed("Whole batches", r"max_bytes 100 \[Fetch", r"records$"),
    Allowed("Replicas fetch on their own listener", r"^a replica id \[Fetch", r""),
    Allowed(
        "Time to carry out a request", r"^a timeout of 0 \[CreateTopics|^a negative timeout \[(Create|Delete)", r""
    ),
    Allowed("min.insync.replicas", r"\[CreateTopics v[567]\]", r"configs\[min.insync.replicas\].config_source"),
    Allowed("min.insync.replicas", r"\[DescribeConfigs", r"configs\[min.insync.replicas\]"),
    Allowed("Values as they are meant", r"^cleanup.policy = delete,delete|election.enable = TRUE", r"\.value$"),
    Allowed(
        "Options of a broker",
        r"^all of the broker",
        r"configs\[(controller\.listener\.names|controller\.quorum\.bootstrap\.servers|listeners|log\.dirs|metadata\.store"
        r"|metrics\.listener|process\.roles|leader\.imbalance\.per\.broker\.percentage|log\.format|zookeeper\.[a-z.]+)\]",
    ),
    Allowed("Options of client metrics", r"^client metrics", r"results\[16/"),
    Allowed("Features", r"^ours \[ApiVersions", r"^(supported|finalized)_features"),
)
