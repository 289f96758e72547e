"""Checks of messages: `wire_tap` takes them from the bytes on the wire, `followers` tracks how far followers have come,
`answers` and `controllers` judge responses and pushes, and `probe` sends requests that must be refused.
"""
