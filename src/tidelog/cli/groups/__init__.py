"""`tidelog groups`: the flags of kafka-consumer-groups. `command.py` parses; each action has a file."""
