"""The history checker: run clients against a cluster, record what they saw, and find what Kafka's promises rule out.

`history` is pure: it reads a recorded history and judges it. `workload` runs real clients and records the history.
`chaos` runs the workload while it injects faults into real processes. `replicas` audits the replicas afterwards.
`fuzz` makes hostile requests.
"""
