"""Messages about record batches in partitions."""
