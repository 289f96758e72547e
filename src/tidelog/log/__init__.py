"""One partition replica's log: segments, indexes, epochs, producers, recovery, retention. Start at `log.Log`.

Files are Kafka's, byte for byte. What a file holds is decided here, what a disk does is `ports.Disk`'s.

- Only the active segment is appended to. Everything about it that can be had from its bytes (its indexes, its recent
  positions) lives in memory and is written when it is rolled or closed: after a crash it is scanned again anyway.
- An append either happened whole (bytes, indexes, epochs, producers, end offset) or left the log as it was.
- `recovery_point` moves only after what lies below it was fsynced: records, indexes, epochs, folder entries.
"""
