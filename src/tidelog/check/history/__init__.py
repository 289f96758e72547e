"""The pure part of the history checker: it reads what clients did and saw, and finds what a correct log cannot have
shown.

`text.parse` reads the lines of a history, `facts.Facts` indexes them by partition and value, `verdict.verify` runs
every family of anomalies. The rules are those of Jepsen's Kafka workload, and a few more; docs/checking.md lists them.
Nothing here does I/O: `check/workload` runs clients and records histories.

Invariants: a missing answer (info) never counts as a failure (fail); every anomaly names the lines that prove it.
"""
