"""The source: what Spark's own Kafka connector reads, with its options and without its jar.

`read_options` checks the options; `limits` are the starting and ending offsets; `topics` selects the partitions;
`offset_lookup` looks both up on the driver; `offsets` has checkpoints and tasks; `data_loss` compares with what existed
before; `batch` and `stream` are Spark's two readers; `task` reads one range on an executor.
"""
