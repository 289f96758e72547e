"""What a consumer reads with: fetches and their buffer, and searches for offsets."""
