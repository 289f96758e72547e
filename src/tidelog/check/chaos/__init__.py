"""Chaos on real broker processes: faults drawn from a seed, the history checker's workload all along, then the verdict.

`run.run` is the one function to start from. What one broker sends to another goes through a relay in front of the other
one, in every run: only so can it arrive late. Rules: everything that is started is ended, by its pid or name; what the
machine does not allow (namespaces, mounts) is left out and said so; no fault destroys what was written, so that nothing
excuses a lost record; at most one disk is full, so that a good copy can always be written.
"""
