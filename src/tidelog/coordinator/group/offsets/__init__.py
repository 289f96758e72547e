"""What a group has read: positions committed and asked for, the table that holds them, and when they expire."""
