"""The `tidelog` command line. `main.py` is the entry point; each command is a module that is imported when it is
called.

A command has a module for its flags and, where it does much, one for its actions: `topics.py` and `topic_actions.py`.

Rules: flags and tables are those of Kafka's tool of the same name; a failure prints one message to stderr and exits
with status 1; a module imports nothing heavy before it is needed, because `--help` and usage errors must be instant.
"""
