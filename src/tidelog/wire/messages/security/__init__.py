"""Messages of authentication and access rules."""
