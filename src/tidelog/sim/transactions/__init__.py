"""Runs whose applications write in transactions: `workload` has them, `stable` is the invariant that only they test."""
