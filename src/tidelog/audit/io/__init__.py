"""The part of the replica audit that reads real clusters and folders: the plan, the reading, and the run.

`folders` and `cluster` make a `Plan`: replicas, and pieces of their logs. `pieces` has the functions that one task
runs on one piece, on this machine or on an executor of Spark; they return digests. `run.audit` takes a plan and a
function that maps over pieces, and reads the batches of those chunks again that differ.
"""
