"""Group and transaction coordinators: state machines whose state is the content of a partition of an internal topic.

A handler returns (response, records). The records are appended to the partition and replayed; only replay changes state
that must survive a failover. Everything else (requests that wait for a response, timers, a rebalance in progress) is
soft state of the machine. `shard` is the runtime that both kinds share; start there. `coordinator` is the broker's
interface: the shards that it leads, and responses combined from several of them.
"""
