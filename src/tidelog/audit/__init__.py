"""The replica audit's judgement: what the replicas of a partition hold, compared, and held against the invariants.

Nothing here reads a file or a socket: `shell/auditing` brings the bytes, on this machine or on Spark's executors.
`scanning` turns bytes into small digests, `merging` puts the pieces of one replica together, `comparing` finds the
chunks that differ and, from their batches' headers, the offsets; `judging` says which of it must not be, `report` is
what comes out. Invariants are named as in REPLICATION.md: I2, I3, I4, I10, I18.

A batch is compared by the first 27 bytes of its header, which hold base offset, length, leader epoch, checksum and last
offset; that the checksum is that of the records is tested where they are read. So two replicas that agree on headers
hold the same bytes, and no record is looked at.
"""
