"""Who is in a group: join, sync, heartbeat and leave, static members, and the rebalances that these set off."""
