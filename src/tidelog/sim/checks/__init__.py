"""The invariants of REPLICATION.md, one file per family, and the ghosts they need.

`suite.Suite` observes a world: after every step it looks at the replicas of the broker that took it, and calls each
family with what changed. `ghosts` remembers what no broker knows: the highest high watermark, what was committed and
acknowledged, and when some of it may be lost. `replica` is one replica's log as batches, read from its files.
`wire.wire_tap` takes from the wire what was fetched and what clients were answered; `wire.probe` sends requests that
must be refused. No check uses the function of the core that it judges.
"""
