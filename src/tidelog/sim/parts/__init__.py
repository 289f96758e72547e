"""Parts of a seed's workload that are drawn with dice of their own, so that without them the rest is as it was:
`transactions` has applications that write in transactions, `copies` some that read as well, `compaction` a topic that
is compacted under changing segment sizes, `members` what kind a group's members are, `moves` partitions that move
between brokers, `factors` other numbers of replicas, `folders` brokers with several log folders, `relocations` replicas
that move between these, `racks` a reader that is sent to followers; `drawing` says which seeds have which part.
"""
