"""What is asked of a cluster, and what the answers are evidence of: generators of requests, without I/O.

`evidence.py` looks twice at every broker, `groups.py` watches consumer groups. The caller (`explain.io`, or a
simulator) sends each list of `asking.Ask` and returns the answers.
"""
