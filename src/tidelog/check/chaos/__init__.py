"""Chaos on real broker processes: faults drawn from a seed, the history checker's workload all along, then the verdict.

Start at `run.run`. In every run each broker is reached by the others through a relay, so that requests can arrive late.
Rules: every process that is started is ended, by its pid or name. Faults that the machine does not allow (namespaces,
mounts) are skipped and reported. No fault destroys written data, so nothing excuses a lost record; at most one disk is
full, so that a good copy can always be written.
"""
