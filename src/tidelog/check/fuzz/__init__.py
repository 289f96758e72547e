"""Hostile requests: `messages` draws and encodes them, `frames` spoils them, `run` sends them to a cluster.

Everything that is drawn comes from a `random.Random`, so that a seed repeats it. The tests of the decoders and
`tidelog fuzz` send the same frames.
"""
