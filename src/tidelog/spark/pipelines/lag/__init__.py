"""Pipeline *lag*: how far each group is behind in each partition over time, and an alert when it stops.

`commits` reads `__consumer_offsets`; `ends` is a source of the partitions' ends, whose offsets are the ends themselves,
so that a batch that is run again sees the same; `watching` puts both together for each partition and judges; `pipeline`
has the stages. Two topics come of it: lags, and alerts when a group has stopped or goes on.
"""
