"""The parts of a producer: partitioner, batches, sequence numbers and requests."""
