"""A telling as one HTML file that needs nothing else: logs as rows of records, messages as arrows, a time slider."""

from tidelog.lab.page.render import render, write

__all__ = ["render", "write"]
