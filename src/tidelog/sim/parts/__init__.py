"""Parts of a seed's workload, each drawn with its own random generator, so that leaving one out changes nothing else.

`transactions` has applications that write in transactions, `copies` those that also read, `compaction` a topic that is
compacted while its segment size changes, `moves` partitions that move between brokers and log directories, `topology`
replication factors, log directories and racks, `operator` an administrator's work. `plan.SHARES` says how many seeds
have each.
"""
