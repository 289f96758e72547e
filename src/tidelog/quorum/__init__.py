"""The metadata quorum: the cluster's tree, replicated by a log whose leader is elected (KRaft's protocol).

Pure, as all of the core. `tree.Tree` is what the log's committed records make, `records` their forms, `snapshots` the
files that stand for the log's beginning, `leases` how long a broker's session lasts without a heartbeat.
"""
