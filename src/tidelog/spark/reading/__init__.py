"""The source: what Spark's own Kafka connector reads, with its options and without its jar.

`options` checks what was given; `limits` are its places to start and end at; `topics` says which partitions are meant;
`places` looks both up on the driver; `ranges` cuts what is to be read into tasks; `loss` compares with what was there;
`batch` and `stream` are Spark's two readers; `pushdown` turns filters into ranges; `task` reads one range on an
executor; `progress` shows a query's place as a group's.
"""
