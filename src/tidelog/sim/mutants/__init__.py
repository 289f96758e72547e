"""Brokers that are broken on purpose, to test the checks: `tidelog simulate --mutants`.

A mutant replaces functions of the core from outside; the core does not know about it. `catalogue` lists the mutants of
REPLICATION.md and the defects that were fixed; `replacements` and `former` are the functions put in place, and `hunt`
searches the seed that detects a mutant.
"""
