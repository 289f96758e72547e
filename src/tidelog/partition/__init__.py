"""One replica of a partition: a log, an epoch and a role. Start from `Partition`.

It has a `Leader` or a `Follower`, each with only the fields of that role. Arithmetic is in `progress` (what a leader
knows about the other replicas) and `truncation` (where logs diverge). Nothing here calls upward: methods return what
happened, and the node acts on it. The rules are numbered in ARCHITECTURE.md.
"""
