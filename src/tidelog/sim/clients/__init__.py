"""Clients in the simulated world: `tidelog.client`'s own machines, the programs around them, and what they saw.

`process` runs one machine; `producer`, `reader`, `member`, `group`, `keeper`, `transactor`, `copier`, `returner` and
`admin` are programs around it. `seen_records` and `commits` hold what applications were told against the promises.
"""
