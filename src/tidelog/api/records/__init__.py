"""Handlers of the records family, a file per API."""
