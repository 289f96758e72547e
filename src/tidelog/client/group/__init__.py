"""What a member of a consumer group is made of: its coordinator, its membership, who reads what, committed offsets."""
