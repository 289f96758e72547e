"""The invariants of REPLICATION.md, one file per family, and the ghosts they need.

`suite.Suite` observes a world: after every step it looks at the replicas of the broker that took it, and calls each
family with what changed. `ghosts` remembers what no broker knows: the highest high watermark, what was committed and
what was acknowledged; `losses` says when some of that may be gone, and on what the ghosts go on then. `replica` is one
replica's log as batches, read from its files. `wire_tap` takes from the wire who fetched what, and what clients were
told; `probe` asks what nobody may ask. No check uses the function of the core that it judges.
"""
