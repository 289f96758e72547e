"""The metadata tree: paths and contents of its nodes, in Kafka's classic form.

Every node's content is JSON as Kafka's ZooKeeper mode wrote it, with these additions: `isr_epochs` beside `isr` in a
partition's state, and there, while too few replicas are in sync, `elr`, `elr_epochs`, `last_known`, `last_known_epochs`
and `last_leader`; `clean_shutdown_epoch` and `directories_since` in a broker's registration; `/brokers/directories`. A
partition's epoch is the version of its state node, a broker's epoch the creation number of its registration.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from tidelog.config.quotas import node_name
from tidelog.model import NO_EPOCH, NO_LEADER, Endpoint, id_bytes, id_text
from tidelog.security.delegation_tokens import Token, principal_of

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
"""The finalized levels of features. Clusters from before there were any do not have the node."""
SASL_SALTS = "/cluster/sasl_salts"
"""Only in clusters with SASL, and not Kafka's: a secret from which the salts of unknown users are made."""
BROKER_IDS = "/brokers/ids"
BROKER_DIRECTORIES = "/brokers/directories"
TOPICS = "/brokers/topics"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
CLIENT_CONFIGS = "/config/clients"
USER_CONFIGS = "/config/users"
IP_CONFIGS = "/config/ips"
GROUP_CONFIGS = "/config/groups"
CONFIGURED = ("topics", "brokers", "clients", "users", "ips", "groups")
"""What has values below `/config`."""
DEFAULT_ENTITY = "<default>"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
LOG_DIR_EVENTS = "/log_dir_event_notification"
DELEGATION_TOKEN = "/delegation_token"  # noqa: S105 (a path)
"""Only in clusters with delegation.token.secret.key, from the first token on."""
DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES = "/delegation_token/token_changes"  # noqa: S105

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
"""What the functions below raise for a malformed node."""

SKELETON = (
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/cluster",
    CONTROLLER_EPOCH,
    "/admin",
    DELETE_TOPICS,
    CONFIG,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    IP_CONFIGS,
    GROUP_CONFIGS,
    CONFIG_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    BROKER_DIRECTORIES,
)
"""The nodes every store holds from its first start, parents first, all with empty content."""


def broker_path(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def directories_path(broker: int) -> str:
    """The log directories that this broker ever had; the node outlives the broker's session."""
    return f"{BROKER_DIRECTORIES}/{broker}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    """The dynamic configuration of one broker, or of all of them where `broker` is empty."""
    return f"{BROKER_CONFIGS}/{broker or DEFAULT_ENTITY}"


def user_clients_path(user: str) -> str:
    """Parent of the quotas of one user's clients; the user is named as its node is."""
    return f"{USER_CONFIGS}/{user}/clients"


def config_change_path(number: int) -> str:
    return f"{CONFIG_CHANGES}/config_change_{number:010d}"


def delegation_token_path(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def delegation_token_change_path(number: int) -> str:
    return f"{DELEGATION_TOKEN_CHANGES}/token_change_{number:010d}"


def change_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of notifications, ascending: names such as `config_change_0000000007`; others are ignored."""
    found = (name.rpartition("_change_")[2] for name in names)
    return sorted(int(digits) for digits in found if digits.isascii() and digits.isdigit())


class Unseen(NamedTuple):
    """Of the notifications that there are, those after the latest one that was `seen`. `missed`: others went before
    anybody looked, so that everything must be read."""

    fresh: list[int]
    missed: bool
    seen: int


def unseen(numbers: Sequence[int], seen: int) -> Unseen:
    """`numbers` ascend. Another program may remove all notifications, as Kafka 3's tools do with old ones: then the
    controller counts from 0 again."""
    seen = seen if numbers else -1
    fresh = [number for number in numbers if number > seen]
    return Unseen(fresh, fresh[0] != seen + 1 if fresh else bool(numbers) and numbers[-1] < seen, seen)


class Registration(NamedTuple):
    """A broker as it registered itself. `clean_epoch` is an earlier broker epoch whose logs it has whole: its last
    process stopped cleanly, or only its session ended.
    `directories_since`: every log directory of the lives with this epoch or a later one is there; an epoch above the
    registration's own says that only this life has all of its directories."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    clean_epoch: int = NO_EPOCH
    directories_since: int = NO_EPOCH
    features: Mapping[str, tuple[int, int]] = {}
    """The levels that it supports, from the lowest to the highest."""

    def reached_by(self, listeners: Sequence[str]) -> Endpoint | None:
        """Where other nodes reach it: at the first of these listeners that it has."""
        found = {each.listener: each for each in self.endpoints}
        return next((found[name] for name in listeners if name in found), None)


def has_directories_of(recorded: int, since: int) -> bool:
    """Whether every log directory of the life with the recorded epoch is there, given `directories_since`."""
    return recorded == NO_EPOCH or recorded >= since


class Assignment(NamedTuple):
    """A topic's node: its id and the replicas of each partition; adding and removing only during a reassignment."""

    topic_id: bytes
    replicas: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]]
    removing: dict[int, tuple[int, ...]]


class RequestedReplicas(NamedTuple):
    """One entry of `/admin/reassign_partitions`."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class LeadershipState(NamedTuple):
    """A partition's state node. `isr_epochs[i]` is the broker epoch with which `isr[i]` was found in sync.

    `elr` are the eligible leader replicas (KIP-966): brokers that left the ISR when it was below `min.insync.replicas`,
    or made it so. They hold everything committed, because the high watermark does not move until enough replicas are in
    sync again. `last_known` are those of them that came back from an unclean end, and may have lost records. Both are
    empty while enough replicas are in sync. `last_leader` led before the partition had no leader.
    """

    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    isr_epochs: tuple[int, ...] = ()
    controller_epoch: int = 0
    elr: tuple[int, ...] = ()
    elr_epochs: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    last_known_epochs: tuple[int, ...] = ()
    last_leader: int = NO_LEADER

    @property
    def members(self) -> dict[int, int]:
        """The in-sync set in its order, each broker with the epoch with which it was found in sync."""
        return dict(zip(self.isr, self.isr_epochs, strict=True))

    @property
    def eligible(self) -> dict[int, int]:
        """The eligible leader replicas, each with the last broker epoch in which it surely held everything."""
        return dict(zip(self.elr, self.elr_epochs, strict=True))

    @property
    def unproven(self) -> dict[int, int]:
        """`last_known`, each broker with the last epoch in which it surely held everything."""
        return dict(zip(self.last_known, self.last_known_epochs, strict=True))

    @property
    def recorded(self) -> dict[int, int]:
        """All brokers that may hold everything committed: one of them must lead next."""
        return {**self.members, **self.eligible, **self.unproven} if self.elr or self.last_known else self.members


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def format_controller(broker: int, timestamp: int, tree_version: int = 0) -> bytes:
    """`tree_version`: the highest level of `tidelog.metadata` that the broker supports."""
    fields = {"version": 1, "brokerid": broker, "timestamp": str(timestamp)}
    return _dump({**fields, "tidelog_metadata": tree_version} if tree_version else fields)


def parse_controller(data: bytes) -> int:
    """The id of the broker that leads."""
    return int(json.loads(data)["brokerid"])


def parse_controller_version(data: bytes) -> int:
    """The highest level of `tidelog.metadata` that the broker that leads supports."""
    return int(json.loads(data).get("tidelog_metadata", 0))


def format_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def parse_controller_epoch(data: bytes) -> int:
    """0 before the first controller."""
    return int(data or b"0")


def format_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})


def parse_cluster_id(data: bytes) -> str:
    return str(json.loads(data)["id"])


def format_registration(registration: Registration, timestamp: int) -> bytes:
    endpoints = registration.endpoints
    first = endpoints[0]
    return _dump(
        {
            "version": 5,
            "host": first.host,
            "port": first.port,
            "jmx_port": -1,
            "timestamp": str(timestamp),
            "endpoints": [f"{e.listener}://{e.host}:{e.port}" for e in endpoints],
            "listener_security_protocol_map": {e.listener: e.security for e in endpoints},
            "rack": registration.rack,
            "features": {
                n: {"min_version": low, "max_version": high} for n, (low, high) in registration.features.items()
            },
            "clean_shutdown_epoch": registration.clean_epoch,
            "directories_since": registration.directories_since,
        }
    )


def parse_registration(data: bytes) -> Registration:
    value = json.loads(data)
    security = value.get("listener_security_protocol_map", {})
    endpoints = tuple(_parse_endpoint(text, security) for text in value["endpoints"])
    clean_epoch, since = value.get("clean_shutdown_epoch", NO_EPOCH), value.get("directories_since", NO_EPOCH)
    supported = value.get("features", {}).items()
    features = {str(name): (int(levels["min_version"]), int(levels["max_version"])) for name, levels in supported}
    return Registration(endpoints, value.get("rack"), clean_epoch, since, features)


def format_directories(missing_since: Mapping[str, int]) -> bytes:
    """For each directory id the broker epoch of the first life without it, NO_EPOCH while it is there."""
    return _dump({"version": 1, "directories": dict(sorted(missing_since.items()))})


def parse_directories(data: bytes) -> dict[str, int]:
    return {str(id_): int(epoch) for id_, epoch in json.loads(data)["directories"].items()}


def _parse_endpoint(text: str, security: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, security.get(listener, listener), host, int(port))


def format_assignment(assignment: Assignment) -> bytes:
    return _dump(
        {
            "version": 3,
            "topic_id": id_text(assignment.topic_id),
            "partitions": assignment.replicas,
            "adding_replicas": assignment.adding,
            "removing_replicas": assignment.removing,
        }
    )


def parse_assignment(data: bytes) -> Assignment:
    value = json.loads(data)
    return Assignment(
        id_bytes(value["topic_id"]),
        _parse_replicas(value["partitions"]),
        _parse_replicas(value.get("adding_replicas", {})),
        _parse_replicas(value.get("removing_replicas", {})),
    )


def _parse_replicas(value: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(partition): tuple(replicas) for partition, replicas in sorted(value.items(), key=lambda kv: int(kv[0]))}


def format_reassignment(requests: Sequence[RequestedReplicas]) -> bytes:
    """Kafka's JSON, as tools take it from a file, too."""
    return _dump({"version": 1, "partitions": [requested._asdict() for requested in requests]})


def parse_reassignment(data: bytes) -> list[RequestedReplicas]:
    """ValueError, TypeError or KeyError where it is not of that form."""
    return [
        RequestedReplicas(
            str(entry["topic"]), int(entry["partition"]), tuple(int(broker) for broker in entry["replicas"])
        )
        for entry in json.loads(data)["partitions"]
    ]


def parse_preferred_election(data: bytes) -> dict[str, list[int]]:
    """Topics with their partitions; ValueError, TypeError or KeyError where it is not of Kafka's form."""
    topics: dict[str, list[int]] = {}
    for entry in json.loads(data)["partitions"]:
        topics.setdefault(str(entry["topic"]), []).append(int(entry["partition"]))
    return topics


def format_state(state: LeadershipState) -> bytes:
    value: dict[str, Any] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "isr_epochs": state.isr_epochs,
    }
    if state.elr:
        value |= {"elr": state.elr, "elr_epochs": state.elr_epochs}
    if state.last_known:
        value |= {"last_known": state.last_known, "last_known_epochs": state.last_known_epochs}
    if state.last_leader != NO_LEADER:
        value["last_leader"] = state.last_leader
    return _dump(value)


def parse_state(data: bytes) -> LeadershipState:
    value = json.loads(data)
    return LeadershipState(
        value["leader"],
        value["leader_epoch"],
        *_parse_members(value, "isr"),
        value["controller_epoch"],
        *_parse_members(value, "elr"),
        *_parse_members(value, "last_known"),
        value.get("last_leader", NO_LEADER),
    )


def _parse_members(value: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The brokers and their epochs; members without epochs never count."""
    members = tuple(value[name] if name == "isr" else value.get(name, ()))
    return members, tuple(value.get(f"{name}_epochs", ())) or (NO_EPOCH,) * len(members)


def without_epochs(state: LeadershipState) -> LeadershipState:
    """For another store, where broker epochs have no meaning: no member counts there."""
    return state._replace(
        isr_epochs=(NO_EPOCH,) * len(state.isr),
        elr_epochs=(NO_EPOCH,) * len(state.elr),
        last_known_epochs=(NO_EPOCH,) * len(state.last_known),
    )


def format_features(levels: Mapping[str, int]) -> bytes:
    return _dump({"version": 2, "status": 1, "features": {n: {"max_version_level": v} for n, v in levels.items()}})


def parse_features(data: bytes) -> dict[str, int]:
    """The finalized levels."""
    return {str(name): int(level["max_version_level"]) for name, level in json.loads(data)["features"].items()}


def format_config(config: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(config)})


def parse_config(data: bytes) -> dict[str, str]:
    """The values of an entity below `/config`, such as `/config/topics/T`; empty content means none."""
    return dict(json.loads(data)["config"]) if data else {}


def format_config_change(entity: str) -> bytes:
    """`entity` is a path below `/config`: "topics/T", "brokers/N", "users/U/clients/C" and so on."""
    return _dump({"version": 2, "entity_path": entity})


def parse_config_change(data: bytes) -> str | None:
    """The entity, or None where the content is not of Kafka's form."""
    try:
        return str(json.loads(data)["entity_path"])
    except (ValueError, KeyError, TypeError):
        return None


def format_delegation_token(token: Token) -> bytes:
    """Its HMAC is not stored."""
    return _dump(
        {
            "version": 3,
            "owner": node_name(str(token.owner)),
            "tokenRequester": node_name(str(token.requester)),
            "renewers": [node_name(str(renewer)) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.id,
        }
    )


def readable_token(token_id: str, data: bytes) -> Token | None:
    """The token in the node of this name; None if its content is malformed, or that of another."""
    with suppress(*UNREADABLE):
        token = _parse_delegation_token(data)
        return token if token.id == token_id else None
    return None


def _parse_delegation_token(data: bytes) -> Token:
    value = json.loads(data)
    owner = principal_of(unquote(value["owner"]))
    requester = principal_of(unquote(value["tokenRequester"])) if "tokenRequester" in value else owner
    renewers = tuple(principal_of(unquote(renewer)) for renewer in value["renewers"])
    times = (int(value[name]) for name in ("issueTimestamp", "maxTimestamp", "expiryTimestamp"))
    return Token(str(value["tokenId"]), owner, requester, renewers, *times)


def format_log_dir_event(broker: int) -> bytes:
    """A log folder of `broker` failed (event 1)."""
    return _dump({"version": 1, "broker": broker, "event": 1})


def parse_log_dir_event(data: bytes) -> int:
    return int(json.loads(data)["broker"])


def format_producer_id_block(broker: int, first: int, last: int) -> bytes:
    """The block of producer ids handed out last, both ends included."""
    return _dump({"version": 1, "broker": broker, "block_start": str(first), "block_end": str(last)})


def parse_producer_id_block(data: bytes) -> tuple[int, int]:
    """(first, last) of the block handed out last; (0, -1) before the first."""
    if not data:
        return 0, -1
    value = json.loads(data)
    return int(value["block_start"]), int(value["block_end"])
