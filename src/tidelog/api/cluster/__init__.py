"""Handlers of the cluster family, a file per API."""
