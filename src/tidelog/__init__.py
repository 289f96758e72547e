"""Apache Kafka's replicated log in Python."""

__version__ = "0.1.0"
"""The one place for it: pyproject.toml reads it from here."""
