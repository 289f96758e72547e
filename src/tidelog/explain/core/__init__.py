"""From evidence to findings, without I/O. `diagnosis.diagnose` is the one function to start from."""

HANGING_AFTER_MINUTES = 15
"""Minutes since the last record after which a transaction counts as hanging: Kafka's default of
transaction.max.timeout.ms, which is the longest time that a coordinator waits."""
