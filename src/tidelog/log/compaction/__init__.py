"""Compaction: keep the last record of each key and remove the earlier ones (Kafka's log cleaner).

`candidates` selects what may be compacted and whether it is worthwhile; `compactor` rewrites groups of segments in
small steps, paced by its caller; `survivors` decides which records of a batch stay; `replacement` replaces the files so
that a crash at any point leaves the old ones or the new ones.
"""
