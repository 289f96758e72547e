"""The history checker: what clients did and saw, written down as lines, and what in it a correct log cannot have shown.

`text.parse` reads the lines, `facts.Facts` orders them by partition and value, `verdict.verify` asks every family of
anomalies. The rules are those of Jepsen's Kafka workload, with a few of our own; docs/checking.md lists them. Nothing
here does I/O: `check/workload` runs clients and records histories.

Invariants: no answer (info) is never taken for a failure (fail); an anomaly names the lines that prove it.
"""
