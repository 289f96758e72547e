"""Rot: bytes that were durable once and are others now. What is read of a segment is held against its checksums first,
off the loop; only what was written or examined lately is trusted. `read` is where reads pass, `examine` what a thread
does, `Soundness` what a segment remembers of it, and `splice` puts the bytes of another replica in the place of bad
ones, where they fit to the byte.
"""
