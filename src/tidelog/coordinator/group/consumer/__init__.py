"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members reconcile by heartbeats.

A rule works on a `group.Draft`: each record that it writes changes the draft at once, by the same `ConsumerGroup.apply`
that replay uses, so that what a rule goes on from is what a failover will find. `heartbeat` is the way in; it finds the
member (`member_lookup`), then `assignment` does the three steps of every heartbeat: what changed raises the group's
epoch (`subscriptions`), a raised epoch means a new target (`assignors`), and the member moves towards its target
(`reconciliation`). `sessions` fences who misses a deadline. `classic_members` answers JoinGroup, SyncGroup, Heartbeat
and LeaveGroup of members that still speak the classic protocol; `conversion` makes one kind of group of the other.
"""
