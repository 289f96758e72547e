"""Stories of the metadata quorum: voters with their epochs, votes and logs, on the simulator's own machines.

As in stories of brokers nothing is left to chance: messages take the same time, timers run out in the order of names,
and a power loss keeps exactly what was synced.
"""
