"""The sink: rows to records, as Spark's own connector writes them, and `exactlyOnce`.

`frame_columns` checks a frame's columns; `encoding` and `partitioning` turn Arrow batches into record batches; `rows`
passes those to a producer. `task` runs on an executor, `driver` when all tasks have finished; `ledger` is the topic in
which the driver records a batch before it commits it.
"""
