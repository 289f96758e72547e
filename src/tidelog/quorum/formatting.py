"""What a formatted directory contains, as Kafka's storage tool writes it.

- `meta.properties`: whose directory it is. It is written last: a directory with it is formatted.
- `bootstrap.checkpoint`: the features of a new cluster, and its first SCRAM users.
- In the directory of the metadata log, if the controllers are not fixed by options and are given: a snapshot of nothing
  but the voters, at offset 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address
from struct import Struct
from typing import NamedTuple

from tidelog.config.feature_levels import KRAFT_VERSION, METADATA_VERSION
from tidelog.config.listeners import HIGHEST_PORT
from tidelog.errors import InvalidOption
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties
from tidelog.log.names import METADATA_TOPIC
from tidelog.model import NO_ID, id_bytes, is_any_address
from tidelog.quorum.snapshots import QuorumState, SnapshotId, Writable, content_of
from tidelog.quorum.voters import ReplicaKey, voter_record
from tidelog.security.added_users import User
from tidelog.wire.messages.cluster.metadata_log import (
    FeatureLevelRecord,
    UserScramCredentialRecord,
    Voter,
    VoterEndpoint,
)

BOOTSTRAP = "bootstrap.checkpoint"
METADATA_FOLDER = f"{METADATA_TOPIC}-0"
_EMPTY = SnapshotId(0, 0)
_GROUPS = Struct(">8H")


class InitialVoter(NamedTuple):
    """A controller of `--initial-controllers`."""

    node_id: int
    directory_id: bytes
    host: str
    port: int


def parse_voters(text: str) -> tuple[InitialVoter, ...]:
    """The controllers in `id@host:port:directory,…`; InvalidOption if there are none or one is malformed."""
    voters = tuple(_voter(each.strip()) for each in text.split(",") if each.strip())
    if not voters:
        raise InvalidOption("--initial-controllers names no controller; expected ID@HOST:PORT:DIRECTORY,…")
    for voter in voters:
        if sum(each.node_id == voter.node_id for each in voters) > 1:
            raise InvalidOption(f"--initial-controllers has node {voter.node_id} more than once.")
    return voters


def _voter(text: str) -> InitialVoter:
    number, at, rest = text.partition("@")
    address, _, directory = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    is_number = all(each.isascii() and each.isdecimal() for each in (number, port))
    if not at or not host or not is_number or int(port) > HIGHEST_PORT:
        raise InvalidOption(f"--initial-controllers: {text!r} is not a controller; expected ID@HOST:PORT:DIRECTORY.")
    try:
        directory_id = id_bytes(directory)
    except ValueError:
        directory_id = NO_ID
    if directory_id == NO_ID:
        raise InvalidOption(
            f"--initial-controllers: {directory!r} is not the ID of a directory; expected one of `storage random-uuid`."
        )
    if is_any_address(host):
        raise InvalidOption(
            f"--initial-controllers: nobody can connect to {host}; set the address under which the host is reached"
        )
    return InitialVoter(int(number), directory_id, _host(host.strip("[]")), int(port))


def _host(text: str) -> str:
    """An IPv6 address in the form that Java gives it, without "::"."""
    try:
        packed = IPv6Address(text).packed
    except ValueError:
        return text
    return ":".join(f"{group:x}" for group in _GROUPS.unpack(packed))


def voter_records(voters: Iterable[InitialVoter], listener: str) -> list[Voter]:
    """The voters as the log has them, by node."""
    return [
        voter_record(
            ReplicaKey(voter.node_id, voter.directory_id),
            [VoterEndpoint(name=listener, host=voter.host, port=voter.port)],
        )
        for voter in sorted(voters)
    ]


def bootstrap_records(levels: Mapping[str, int], users: Iterable[User]) -> list[Writable]:
    """Levels above 0, metadata.version first and the others by name; kraft.version stands with the voters."""
    names = sorted(name for name, level in levels.items() if level and name not in (METADATA_VERSION, KRAFT_VERSION))
    records: list[Writable] = [
        FeatureLevelRecord(name=name, feature_level=levels[name]) for name in (METADATA_VERSION, *names)
    ]
    return [*records, *(_user_record(user) for user in users)]


def _user_record(user: User) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user.name,
        mechanism=user.mechanism.number,
        salt=user.credential.salt,
        stored_key=user.credential.stored_key,
        server_key=user.credential.server_key,
        iterations=user.credential.iterations,
    )


def files(
    meta: MetaProperties, bootstrap: Sequence[Writable], voters: Sequence[Voter] | None, wall: int
) -> dict[str, bytes]:
    """The files of one directory by their path in it, in the order in which they are written. `voters` is None but for
    a directory of the metadata log whose snapshot has them."""
    content = b"".join(content_of(0, bootstrap, QuorumState(), last_timestamp=0, timestamp=wall))
    found = {BOOTSTRAP: content}
    if voters is not None:
        state = QuorumState(1, voters)
        found[f"{METADATA_FOLDER}/{_EMPTY.file_name}"] = b"".join(content_of(0, [], state, last_timestamp=wall))
    found[META_PROPERTIES] = format_meta_properties(meta)
    return found
