"""The transaction coordinator."""

from tidelog.config.declare import CLUSTER_WIDE, boolean, integer, short
from tidelog.config.option import Options


class TransactionOptions(Options):
    transaction_max_timeout_ms = integer(900_000, "Longest time-out that a transaction may ask for.", at_least=1)
    transactional_id_expiration_ms = integer(
        604_800_000, "Time after which an unused transactional id is forgotten.", at_least=1
    )
    transaction_state_log_num_partitions = integer(50, "Partitions of the transaction topic.", at_least=1)
    transaction_state_log_replication_factor = short(3, "Replicas of the transaction topic.", at_least=1)
    transaction_state_log_min_isr = integer(2, "In-sync replicas that the transaction topic needs.", at_least=1)
    transaction_state_log_segment_bytes = integer(104_857_600, "Segment size of the transaction topic.", at_least=1)
    transaction_state_log_load_buffer_size = integer(
        5_242_880, "Bytes per read while a coordinator loads transactions.", at_least=1, ignored=True
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "Time between two looks for transactions that ran out of time.", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "Time between two looks for expired transactional ids.", at_least=1
    )
    transaction_partition_verification_enable = boolean(
        True,
        "Asks the coordinator whether a transaction is open before its records are appended.",
        dynamic=CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable = boolean(False, "Allows transactions in two phases.", ignored=True)
    add_partitions_to_txn_retry_backoff_ms = integer(
        20, "First pause before verification is retried.", at_least=1, ignored=True
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100, "Longest pause before verification is retried.", at_least=0, ignored=True
    )
