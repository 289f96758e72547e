"""The workload of the history checker: real clients that record what they do and see.

`workload.Workload` runs it; `check/history` judges the recorded history. Rules: a value is sent at most once to its
partition. A process whose call got no clear answer is retired, and its successor has another number. Everything that a
consumer returns is recorded.
"""
