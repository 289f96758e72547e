"""The replica audit: do the replicas of a partition hold what replication promises?

`core` is pure: it turns bytes into digests, compares replicas and judges them, without a file, a socket or a clock.
`io` plans what to read, from log folders or from a running cluster, reads it, and runs the audit, on this machine or on
Spark's executors (`spark/audit_session.py`).
"""
