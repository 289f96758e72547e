"""`tidelog groups`: kafka-consumer-groups. `groups_command.py` parses the flags; `group_output.py` lists and describes,
`group_changes.py` deletes groups and deletes or resets offsets; both read the cluster by `group_requests.py`."""
