"""What a node must know to be a member of the metadata quorum."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.model import Endpoint
from tidelog.ports import Change
from tidelog.quorum.options import DEFAULTS, Options
from tidelog.quorum.voters import Voters


class QuorumSetup(NamedTuple):
    """`folder` has the metadata log, `directory` is the ID of the log directory around it. `voters` vote where the log
    does not say who does; `endpoints` are theirs, by node. `listeners` are those of this node's controller. `founding`
    is what the first leader writes into the empty tree, in one multi, unless its first node is there. Times are in
    milliseconds."""

    cluster_id: str
    folder: str
    directory: bytes
    voters: Voters
    endpoints: Mapping[int, Endpoint]
    listeners: frozenset[str] = frozenset()
    founding: Sequence[Change] = ()
    options: Options = DEFAULTS
    request_timeout_ms: int = 2_000
    session_timeout_ms: int = 9_000
    segment_bytes: int = 1_073_741_824
    snapshot_bytes: int = 20_971_520
    """After so many bytes of records a snapshot is made."""
    snapshot_ms: int = 3_600_000
    """At the latest so long after the last one, if there are new records."""
