"""The options of the quorum, as its replicas use them: `controller.quorum.…` and `metadata.…`."""

from typing import NamedTuple

from tidelog.config.broker import BrokerConfig


class Options(NamedTuple):
    """Times in milliseconds. `fetch_wait_ms` is how long a leader holds a fetch; Kafka has no option for it."""

    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    fetch_bytes: int
    snapshot_bytes: int
    """The most bytes of one FetchSnapshot."""
    retention_bytes: int
    retention_ms: int
    fetch_wait_ms: int = 500

    @classmethod
    def of(cls, config: BrokerConfig) -> "Options":
        return cls(
            election_timeout_ms=config.controller_quorum_election_timeout_ms,
            fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
            election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
            request_timeout_ms=config.controller_quorum_request_timeout_ms,
            retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
            fetch_bytes=config.controller_quorum_fetch_max_bytes,
            snapshot_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )


DEFAULTS = Options.of(BrokerConfig({}))
