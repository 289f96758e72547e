"""What is wrong with a cluster, and which commands help: for `tidelog explain` and every other program that shows it.

`gathering.py` decides which requests are sent and what their answers mean: a generator of requests that does no I/O.
`io.py` sends them to real brokers; simulated ones are asked by the same generator. The result is `core/evidence.py`,
plain data, from which `core/diagnosis.py` `diagnose` derives findings (`core/finding.py`).
"""
