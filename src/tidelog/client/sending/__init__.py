"""What a producer is made of: the partition for a record, batches and their numbers."""
