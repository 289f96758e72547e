"""The `tidelog` command: `main.py` is the entry; each command is a module that is imported when it is called.

Rules: flags and tables are those of Kafka's tool of the same name; what went wrong is one sentence on stderr and exit
code 1; nothing is imported before it is needed, since a command line must answer at once.
"""
