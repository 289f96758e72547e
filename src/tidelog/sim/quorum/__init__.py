"""Simulated metadata quorums: voters and observers with their logs on simulated disks, without brokers around them.

A seed is one run (`run.run_seed`): a phase of faults, a phase in which everything must recover, and a power cut of all
machines. `machines` carries out what the replicas want, `checks` has the invariants, `run` draws the faults,
`mutants` breaks rules.
"""
