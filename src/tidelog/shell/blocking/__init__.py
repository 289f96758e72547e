"""Clients without an event loop: what `shell.transport` runs on."""
