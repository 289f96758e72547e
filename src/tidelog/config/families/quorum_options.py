"""Options of the metadata quorum (KRaft). Brokers still ignore them; `tidelog storage` formats directories by them."""

from tidelog.config.option import Options, boolean, string, strings


class QuorumOptions(Options):
    process_roles = strings(
        [], "The roles of the process; read by `tidelog storage` only.", choices=("broker", "controller")
    )
    controller_quorum_voters = strings([], "All controllers as id@host:port; read by `tidelog storage` only.")
    controller_quorum_bootstrap_servers = strings(
        [], "Addresses of controllers as host:port; read by `tidelog storage` only."
    )
    controller_quorum_auto_join_enable = boolean(
        False, "Whether a controller joins the quorum by itself; read by `tidelog storage` only."
    )
    metadata_log_dir = string(
        None, "Directory of the metadata log, by default the first of log.dirs; read by `tidelog storage` only."
    )
