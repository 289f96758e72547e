"""Compaction: each key's last record stays, what it replaced goes (Kafka's log cleaner).

`candidates` says what of a log may be compacted and whether it is worth it; `compactor` rewrites groups of segments,
in small steps and under its caller's pace; `survivors` decides what of a batch stays; `replacement` exchanges the files
so that a crash at any point leaves the old ones or the new ones.
"""
