"""Clients in the simulated world: `tidelog.client`'s own machines, what they are used for, and what they saw.

`process` runs one machine; `producer`, `reader`, `member`, `keeper`, `asker` and `admin` are programs around it. What
applications were told goes to `told` and `commits`, which hold the promises against each other.
"""
