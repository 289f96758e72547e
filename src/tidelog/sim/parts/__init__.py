"""Parts of a seed's workload that are drawn with dice of their own, so that without them the rest is as it was:
`transactions` has applications that write in transactions, `compaction` a topic that is compacted under changing
segment sizes, `drawing` says which seeds have which part.
"""
