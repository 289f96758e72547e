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
    Allowed("Error messages in produce responses", r"", MESSAGE, "some"),
    Allowed("Null records", r"^null records", r"^$"),
    Allowed("Trailing bytes after a batch", r"a byte behind the batch", r""),
    Allowed("Records inside a batch", r"compressed bytes that are not|a record with a wrong offset", r""),
    Allowed("Records inside a batch", r"^what has been appended", r"records$"),
    Allowed("Records inside a batch", r"^a timestamp far ahead|^timely: too", r"record_errors"),
    Allowed(
        "Log start offset in rejected batches",
        r"^(two batches|magic [01]|the first \d+ bytes|a batch of length 2147483647) .*Produce",
        r"log_start_offset$",
        0,
    ),
    Allowed("More specific error codes", r"^a header with attributes [57]", r"error_code$"),
    Allowed("More specific error codes", r"^a batch of length 2147483647", r"error_code$"),
    Allowed("More specific error codes", r"^far too many \[CreatePartitions", r"error_code$"),
    Allowed("More specific error codes", r"^bad names \[DescribeTopicPartitions", r"error_code$|operations$"),
    Allowed("More specific error codes", r"^c: fetch of nobody", r"error_code$"),
    Allowed("More specific error codes", r"^replace twice \[AlterConfigs", r"^$"),
    Allowed(
        "Negative limits and unknown isolation levels", r"max_bytes -1 \[Fetch|^an unknown isolation level \[Fetch", r""
    ),
    Allowed("Whole batches", r"max_bytes 100 \[Fetch", r"records$"),
    Allowed("Replicas fetch on their own listener", r"^a replica id \[Fetch", r""),
    Allowed("Zero and negative timeouts", r"^a timeout of 0 \[CreateTopics|^a negative timeout \[(Create|Delete)", r""),
    Allowed("Normalized configuration values", r"^cleanup.policy = delete,delete|election.enable = TRUE", r"\.value$"),
    Allowed(
        "Options of a broker",
        r"^all of the broker",
        r"configs\[(controller\.listener\.names|controller\.quorum\.bootstrap\.servers|listeners|log\.dirs|metadata\.store"
        r"|metrics\.listener|process\.roles|leader\.imbalance\.per\.broker\.percentage|log\.format|zookeeper\.[A-Za-z.]+)\]",
    ),
    Allowed(
        "Finite limits",
        r"^all of the broker",
        r"configs\[(max\.connections|max\.connections\.per\.ip|queued\.max\.request\.bytes)\]",
    ),
    Allowed("Options of client metrics", r"^client metrics", r"results\[16/"),
    Allowed("APIs of secured brokers", r"^ours \[ApiVersions", r"^api_keys\[(29|30|31)\]$"),
    Allowed("Options of logins", r"^sasl\.jaas\.config = ", r"error_code$", "INVALID_REQUEST"),
    Allowed("Features", r"^ours \[ApiVersions", r"^(supported|finalized)_features"),
)
