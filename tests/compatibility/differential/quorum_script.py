"""The metadata quorum of one voter: DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UpdateFeatures and DescribeCluster, on
the broker's listener and on the controller's."""

from typing import Any

from tests.compatibility.differential.comparison import plain
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import Connection
from tidelog.api.registry import APIS

LOG = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
OTHER_DIRECTORY = b"another replicas"
SHARED = (55, 57, 60, 80, 81)
"""Served by controllers, too."""
ONLY_WHETHER_ANY = (
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
)


def run(side: Side) -> None:
    cluster_id = side.quiet("DescribeCluster", 0).cluster_id
    side.names[cluster_id] = "the cluster"
    described = side.quiet("DescribeQuorum", 2, topics=LOG)
    (own,) = described.topics[0].partitions[0].current_voters
    side.names[own.replica_directory_id] = "the directory"
    controller = Connection(described.nodes[0].listeners[0].port)
    for place, connection in (("broker", side.connection), ("controller", controller)):
        _api_versions(side, place, connection)

        def ask(label: str, api: str, place: str = place, connection: Any = connection, **values: Any) -> None:
            for version in sorted({APIS[_KEYS[api]].low, APIS[_KEYS[api]].high}):
                answer = connection.ask(api, version, **values)
                side.asked.add((api, version))
                side.answers.append((f"{label} at the {place} [{api} v{version}]", _still(plain(answer, side.names))))

        _describe(ask)
        _voters(ask, cluster_id, own.replica_directory_id)
        for endpoint_type in (1, 2, 3):
            ask(f"endpoints of type {endpoint_type}", "DescribeCluster", endpoint_type=endpoint_type)
        nothing = [{"feature": "no.such.feature", "max_version_level": 1}]
        ask("a feature that does not exist", "UpdateFeatures", feature_updates=nothing, validate_only=True)
    controller.close()


_KEYS = {api.name: api.key for api in APIS.values()}


def _still(answer: Any) -> Any:
    """Without how far the log is, and when."""
    if isinstance(answer, list):
        return [_still(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: ("known" if value >= 0 else value) if name in ONLY_WHETHER_ANY else _still(value)
        for name, value in answer.items()
    }


def _api_versions(side: Side, place: str, connection: Any) -> None:
    answer = connection.ask("ApiVersions", 4, client_software_name="twin", client_software_version="1")
    served = sorted((each.api_key, each.min_version, each.max_version) for each in answer.api_keys)
    side.note(f"shared at the {place}", tuple(each for each in served if each[0] in SHARED))
    named = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    side.note(f"kraft.version at the {place}", ("supported", named.get("kraft.version")))
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    side.note(f"its level at the {place}", ("finalized", levels.get("kraft.version")))


def _describe(ask: Any) -> None:
    ask("the quorum", "DescribeQuorum", topics=LOG)
    ask("no topic", "DescribeQuorum", topics=[])
    ask("another topic", "DescribeQuorum", topics=[{"topic_name": "t", "partitions": [{"partition_index": 0}]}])
    for partitions in ([1], [0, 1], []):
        wanted = [{"partition_index": index} for index in partitions]
        topics = [{"topic_name": "__cluster_metadata", "partitions": wanted}]
        ask(f"partitions {partitions}", "DescribeQuorum", topics=topics)
    ask("two topics", "DescribeQuorum", topics=[*LOG, {"topic_name": "t", "partitions": [{"partition_index": 0}]}])


def _voters(ask: Any, cluster_id: str, directory: bytes) -> None:
    def add(label: str, **changes: Any) -> None:
        values = {
            "cluster_id": cluster_id,
            "timeout_ms": 5_000,
            "voter_id": 7,
            "voter_directory_id": OTHER_DIRECTORY,
            "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
            "ack_when_committed": True,
        }
        ask(f"add {label}", "AddRaftVoter", **{**values, **changes})

    add("one of another cluster", cluster_id="another")
    add("one without listeners", listeners=[])
    add("one without a directory", voter_directory_id=bytes(16))
    add("one with a negative id", voter_id=-1)
    add("the one there is", voter_id=0)
    add("one that is not there")

    def remove(label: str, voter_id: int, directory_id: bytes, cluster: str | None = cluster_id) -> None:
        values = {"cluster_id": cluster, "voter_id": voter_id, "voter_directory_id": directory_id}
        ask(f"remove {label}", "RemoveRaftVoter", **values)

    remove("one of another cluster", 0, directory, "another")
    remove("one that is not there", 7, OTHER_DIRECTORY)
    remove("one with another directory", 0, OTHER_DIRECTORY)
    remove("one without a directory", 0, bytes(16))
    remove("the last one", 0, directory)
    remove("one of no cluster", 7, OTHER_DIRECTORY, None)
