"""The simulated world: seeded clock, network, disks and metadata store around the same `Node` that serves clients.

Start at `world.World`: it owns virtual time and the heap of events, carries out the effects of every node, and records
each delivered input and effect in its trace. Nothing here reads a clock, starts a thread, or draws randomness from
anywhere but the seed.
"""
