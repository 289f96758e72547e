"""Groups of the classic protocol: join, sync, heartbeat and leave, static members, and rebalances."""
