"""Records of the metadata quorum's log and of its snapshots.

- Kafka's control records: who leads (KIP-595), who votes (KIP-853), where a snapshot begins and ends (KIP-630).
- Kafka's metadata records of a formatted folder: feature levels and SCRAM users.
- Tidelog's own records, from key 30000 on: changes of the metadata tree, and what a snapshot has of it.
"""

from tidelog.wire.message import array, binary, data, int8, int16, int32, int64, message, string, struct, uint16, uuid


@message
class LeaderChangeVoter:
    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


@data("0-1", flexible="0+", record=2)
class LeaderChangeMessage:
    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


@data("0", flexible="0+", record=3)
class SnapshotHeaderRecord:
    version: int = int16()
    last_contained_log_timestamp: int = int64()


@data("0", flexible="0+", record=4)
class SnapshotFooterRecord:
    version: int = int16()


@data("0", flexible="0+", record=5)
class KRaftVersionRecord:
    version: int = int16()
    k_raft_version: int = int16()


@message
class VoterEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message
class KRaftVersionFeature:
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message
class Voter:
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


@data("0", flexible="0+", record=6)
class VotersRecord:
    version: int = int16()
    voters: list[Voter] = array(Voter)


@data("0", flexible="0+", record=11)
class UserScramCredentialRecord:
    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary()
    stored_key: bytes = binary()
    server_key: bytes = binary()
    iterations: int = int32()


@data("0", flexible="0+", record=12)
class FeatureLevelRecord:
    name: str = string()
    feature_level: int = int16()


@message
class TreeChange:
    kind: int = int8()
    path: str = string()
    data: bytes = binary()
    expected_version: int = int32(default=-1)


@data("0", flexible="0+", record=30000)
class TreeChangesRecord:
    session: int = int64()
    number: int = int64()
    changes: list[TreeChange] = array(TreeChange)


@data("0", flexible="0+", record=30001)
class SessionOpenedRecord:
    broker_id: int = int32()
    incarnation_id: bytes = uuid()
    log_dirs: list[bytes] = array(uuid)
    replaces: int = int64()
    changes: list[TreeChange] = array(TreeChange)


@data("0", flexible="0+", record=30002)
class SessionEndedRecord:
    session: int = int64()
    reason: str = string()


@data("0", flexible="0+", record=30003)
class TreeNodeRecord:
    path: str = string()
    data: bytes = binary()
    version: int = int32()
    created: int = int64()
    session: int = int64()


@data("0", flexible="0+", record=30004)
class SessionRecord:
    session: int = int64()
    broker_id: int = int32()
    incarnation_id: bytes = uuid()
    log_dirs: list[bytes] = array(uuid)
    number: int = int64()


@data("0", flexible="0+", record=30005)
class LastSessionRecord:
    broker_id: int = int32()
    session: int = int64()
