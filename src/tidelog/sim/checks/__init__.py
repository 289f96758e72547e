"""The invariants of REPLICATION.md, one file per family, and the ghosts they need.

`suite.Suite` observes a world: after every step it looks at the replicas of the broker that took it, and calls each
family with what changed. `ghosts` remembers what no broker knows: the highest high watermark, what was committed and
what was acknowledged. `replica` is one replica's log as batches, kept up to date by reading the real one.
"""
