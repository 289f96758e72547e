"""Handlers of the APIs about topics, a file per API."""
