"""What a broker does for its logs beside serving them: by the clock, by fsync, and by compaction."""
