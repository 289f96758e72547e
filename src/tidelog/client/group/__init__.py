"""The parts of a member of a consumer group: its coordinator, its membership, assignments, and committed offsets."""
