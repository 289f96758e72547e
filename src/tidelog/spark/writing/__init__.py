"""The sink: rows to records, as Spark's own connector writes them, and `exactlyOnce`.

`columns` says what a frame must have; `encoding` and `partitioning` turn Arrow batches into record batches; `rows`
hands those to a producer. `task` is what an executor does with them, `driver` what happens when all tasks are through;
`ledger` is the topic in which the driver records what is to count before it makes it count.
"""
