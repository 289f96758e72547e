"""Brokers that are broken on purpose, so that the checks are checked: `tidelog simulate --mutants`.

A mutant replaces functions of the core from outside; the core knows nothing of it. `catalogue` is the list of
REPLICATION.md, and of defects that were mended; `replication`, `storage`, `transactions` and `former` are the
replacements, `hunt` looks for the seed that finds a mutant out.
"""
