"""Options of the metadata quorum (KRaft). They are ignored where `metadata.store` or `zookeeper.connect` is set, or the
controllers are not named. `quorum/options.py` has those of its replicas."""

from tidelog.config.option import Options, boolean, integer, long, string, strings


class QuorumOptions(Options):
    process_roles = strings([], "The roles of the process.", choices=("broker", "controller"))
    controller_quorum_voters = strings([], "All controllers as id@host:port, where they are fixed.")
    controller_quorum_bootstrap_servers = strings([], "Addresses of controllers as host:port.")
    controller_quorum_auto_join_enable = boolean(
        False,
        "Whether a controller joins the quorum by itself. Not supported: add it with `tidelog quorum add-controller`.",
    )
    metadata_log_dir = string(None, "Directory of the metadata log, by default the first of log.dirs.")
    controller_quorum_election_backoff_max_ms = integer(1000, "Maximum backoff between elections.", at_least=0)
    controller_quorum_election_timeout_ms = integer(1000, "Time to wait for votes.", at_least=0)
    controller_quorum_fetch_max_bytes = integer(1_048_576, "Bytes per fetch of the metadata log.", at_least=1)
    controller_quorum_fetch_snapshot_max_bytes = integer(
        1_048_576, "Bytes per fetch of a metadata snapshot.", at_least=1
    )
    controller_quorum_fetch_timeout_ms = integer(2000, "Time without a leader before an election.", at_least=0)
    controller_quorum_request_timeout_ms = integer(2000, "Timeout of the quorum's requests.", at_least=0)
    controller_quorum_retry_backoff_ms = integer(20, "Backoff before the quorum's retries.", at_least=0)
    metadata_log_max_record_bytes_between_snapshots = long(20_971_520, "Bytes between snapshots.", at_least=1)
    metadata_log_max_snapshot_interval_ms = long(3_600_000, "Interval between snapshots.", at_least=0)
    metadata_log_segment_bytes = integer(1_073_741_824, "Segment size of the metadata log.", at_least=8_388_608)
    metadata_max_retention_bytes = long(104_857_600, "Size of retained metadata.")
    metadata_max_retention_ms = long(604_800_000, "Age of retained metadata.")
