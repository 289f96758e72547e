"""One replica of a partition: a log, an epoch and a role.

Start from `Partition`. It has a `Leader` or a `Follower`, each with only what that role needs. Arithmetic lives in
`progress` (what a leader knows of the others) and `truncation` (where logs part). Nothing here calls upward: methods
return what happened, and the node acts on it. The rules are numbered in ARCHITECTURE.md.
"""
