"""`tidelog explain`: why the cluster is as it is, and the command that helps.

`gathering.py` asks the brokers and writes down `evidence.py`; rules (`brokers.py`, `partitions.py`, `topics.py`,
`groups.py`) are functions from evidence to findings and ask nobody; `view.py` prints them.
"""
