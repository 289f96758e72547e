"""Handlers of Tidelog's own APIs, which its tools ask."""
