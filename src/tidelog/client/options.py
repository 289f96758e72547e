"""The clients' options, with Kafka's names ('.' written as '_') and the defaults of its Java clients (4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from tidelog.errors import InvalidOption

Address = tuple[str, int]

MAX_RETRIES = 2**31 - 1
KNOWN_BATCHES = 5
"""How many of a producer's last batches a broker recognizes when they are sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options of every client."""

    client_id: str = "tidelog"
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    metadata_max_age_ms: int = 300_000
    default_api_timeout_ms: int = 60_000
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_jaas_config: str = field(default="", repr=False)
    sasl_login_connect_timeout_ms: int | None = None
    sasl_login_read_timeout_ms: int | None = None
    sasl_login_retry_backoff_ms: int = 100
    sasl_login_retry_backoff_max_ms: int = 10_000
    sasl_oauthbearer_token_endpoint_url: str = ""
    sasl_oauthbearer_client_credentials_client_id: str = ""
    sasl_oauthbearer_client_credentials_client_secret: str = field(default="", repr=False)
    sasl_oauthbearer_scope: str = ""
    sasl_oauthbearer_header_urlencode: bool = False
    ssl_truststore_type: str = "JKS"
    ssl_truststore_location: str = ""
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_truststore_certificates: str = ""
    ssl_keystore_type: str = "JKS"
    ssl_keystore_location: str = ""
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_keystore_key: str = field(default="", repr=False)
    ssl_keystore_certificate_chain: str = ""
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: tuple[str, ...] = ()
    ssl_endpoint_identification_algorithm: str = "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """An admin has no options of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """`acks` is 0, 1, -1 or "all"."""

    acks: str | int = "all"
    enable_idempotence: bool | None = None
    retries: int = MAX_RETRIES
    delivery_timeout_ms: int = 120_000
    linger_ms: int = 5
    batch_size: int = 16_384
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    max_in_flight_requests_per_connection: int = 5
    compression_type: str = "none"
    partitioner_ignore_keys: bool = False
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    @property
    def required_acks(self) -> int:
        return -1 if self.acks in ("all", "-1") else int(self.acks)

    @property
    def is_idempotent(self) -> bool:
        """Enabled unless another option rules it out; InvalidOption if it is requested and ruled out."""
        conflict = self._idempotence_conflict()
        if self.enable_idempotence and conflict:
            raise InvalidOption(f"enable.idempotence requires {conflict}")
        if self.transactional_id is not None and (conflict or self.enable_idempotence is False):
            raise InvalidOption(f"transactional.id requires {conflict or 'enable.idempotence'}")
        return conflict is None if self.enable_idempotence is None else self.enable_idempotence

    def _idempotence_conflict(self) -> str | None:
        if self.required_acks != -1:
            return f"acks=all, not {self.acks}"
        if self.retries == 0:
            return "retries of at least 1"
        in_flight = self.max_in_flight_requests_per_connection
        if in_flight > KNOWN_BATCHES:
            return f"max.in.flight.requests.per.connection of at most {KNOWN_BATCHES}, not {in_flight}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """Without `group_id` there is no membership and nothing is committed."""

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: str = "read_uncommitted"
    partition_assignment_strategy: tuple[str, ...] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    client_rack: str = ""
    allow_auto_create_topics: bool = True


O = TypeVar("O", bound=ClientOptions)  # noqa: E741


def parse(kind: type[O], properties: Mapping[str, str]) -> O:
    """Options from text, as in a properties file or a tool's flags. InvalidOption for an unknown name or a value of the
    wrong type."""
    known = {each.name: each.type for each in fields(kind)}
    values: dict[str, Any] = {}
    for name, text in properties.items():
        place = name.replace(".", "_")
        if place not in known:
            raise InvalidOption(f"{name} is not an option of this client")
        values[place] = _value(name, str(known[place]), text)
    return kind(**values)


def _value(name: str, kind: str, text: str) -> Any:
    if "bool" in kind:
        if text.lower() not in ("true", "false"):
            raise InvalidOption(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"
    if kind.startswith("tuple"):
        return tuple(word.strip() for word in text.split(",") if word.strip())
    if "str" in kind:
        return text
    try:
        return int(text)
    except ValueError:
        raise InvalidOption(f"{name} must be an integer, not {text!r}") from None
