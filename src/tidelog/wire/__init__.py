"""Bytes ↔ frames ↔ messages ↔ record batches: everything between a socket's bytes and an API's handler.

Start at `codec` for messages and at `records` for what they carry. Nothing here knows a broker or a clock; malformed
bytes raise `ProtocolViolation` before anything of their claimed size is allocated.
"""
