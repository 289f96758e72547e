"""`tidelog metadata`: the cluster's memory, looked at, changed and moved by hand, whichever store keeps it."""
