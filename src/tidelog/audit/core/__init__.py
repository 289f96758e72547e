"""The pure part of the replica audit: it compares what the replicas of a partition hold, and checks the invariants.

Nothing here reads a file or a socket: `audit/io` reads the bytes. `scanning` turns bytes into small digests, `merging`
puts the pieces of one replica together, `comparing` finds the chunks that differ and, from their batches' headers, the
offsets. `judging` decides what breaks an invariant, and `report` is the result. Invariants have the names of
REPLICATION.md: I2, I3, I4, I10, I18.

The first 27 bytes of a batch's header hold base offset, length, leader epoch, checksum and last offset, and only they
are compared. Whoever reads the batch verifies the checksum over its records. Two replicas with equal headers therefore
hold the same bytes, and no record is decoded.
"""
