"""The replica audit on real clusters and folders: what there is to read, the reading, and the run over all of it.

`folders` and `cluster` make a `Plan`: replicas, and pieces of their logs. `pieces` has the functions that one task
carries out on one piece, on this machine or on an executor of Spark; they return digests. `run.audit` carries a plan
out with whatever maps a function over pieces, and asks again for the batches of chunks that differ.
"""
