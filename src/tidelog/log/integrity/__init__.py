"""Rot: bytes that were durable once and are others now. What is read of a cold segment is held against its checksums
first, off the loop, once for as long as the segment's file is open; what a process wrote to its active segment, it
trusts. `sound_part` is where reads pass, `examine` what a thread does, `Soundness` what a segment remembers of it, and
`splice` puts the bytes of another replica in the place of bad ones, where they fit to the byte.
"""
