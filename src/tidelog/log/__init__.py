"""The log of one partition replica: segments, indexes, epochs, producers, recovery, retention. Start at `log.Log`.

The files are byte for byte Kafka's. This package decides what a file contains, `ports.Disk` what a disk does.

- Only the active segment is appended to. Everything that can be computed from its bytes (its indexes, its recent
  positions) is in memory and is written when the segment is rolled or closed: after a crash it is scanned anyway.
- An append is applied as a whole (bytes, indexes, epochs, producers, end offset) or leaves the log unchanged.
- `recovery_point` advances only after everything below it was fsynced: records, indexes, epochs, folder entries.
"""
