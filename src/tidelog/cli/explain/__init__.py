"""`tidelog explain`: diagnoses the cluster and suggests commands that help.

`evidence_gathering.py` queries the brokers and collects `evidence.py`; rules (`cluster_rules.py`, `partition_rules.py`,
`group_rules.py`) are functions from evidence to findings (`finding.py`) and send no requests.
"""
