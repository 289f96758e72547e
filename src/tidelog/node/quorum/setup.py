"""What a node must know to be a member of the metadata quorum."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tidelog.model import Endpoint
from tidelog.ports import Change
from tidelog.quorum.options import DEFAULTS, Options
from tidelog.quorum.voters import VoterSet
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint


class QuorumSetup(NamedTuple):
    """`folder` has the metadata log, `directory` is the ID of the log directory around it. `voters` vote where the log
    does not say who does; `endpoints` are theirs, by node. `listener` is the one by which controllers are reached,
    `listeners` are those of this node's controller. `bootstrap` are addresses of controllers whose nodes are not known.
    `users` may log in by SCRAM until the tree is there. `founding` is what the first leader writes into the empty tree,
    in one multi, unless its first node is there. Times are in milliseconds."""

    cluster_id: str
    folder: str
    directory: bytes
    voters: VoterSet
    endpoints: Mapping[int, Endpoint]
    listener: str = "CONTROLLER"
    bootstrap: Sequence[Endpoint] = ()
    listeners: frozenset[str] = frozenset()
    own_endpoints: Sequence[VoterEndpoint] = ()
    """Where others reach this node's controller. If the voter set says otherwise, it is changed (UpdateRaftVoter)."""
    founding: Sequence[Change] = ()
    users: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Their credentials by mechanism, as the tree has them (`security.scram.format_credential`)."""
    options: Options = DEFAULTS
    request_timeout_ms: int = 2_000
    session_timeout_ms: int = 9_000
    segment_bytes: int = 1_073_741_824
    snapshot_bytes: int = 20_971_520
    """After so many bytes of records a snapshot is made."""
    snapshot_ms: int = 3_600_000
    """At the latest so long after the last one, if there are new records."""


def controller_endpoint(listener: str, host: str, port: int) -> Endpoint:
    """Where a controller is reached. Its protocol is this node's own option, not the other's to say."""
    return Endpoint(listener, "", host, port)
