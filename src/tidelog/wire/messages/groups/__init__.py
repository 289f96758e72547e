"""Messages of groups and their positions."""
