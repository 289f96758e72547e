"""Handlers of the transactions family, a file per API."""
