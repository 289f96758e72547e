"""Group and transaction coordinators: state machines whose state is what a partition of an internal topic holds.

A handler returns (response, records); the records are appended to the partition and replayed, and only replay changes
what must survive. Whatever a failover may forget (who waits for an answer, timers, a rebalance under way) is soft
state of the machine. `shard` is the runtime that both kinds share; start there.
`coordinator` is the way in and out for the broker: which shards it leads, and one answer from several of them.
"""
