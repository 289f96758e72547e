"""Messages about topics and their partitions."""
