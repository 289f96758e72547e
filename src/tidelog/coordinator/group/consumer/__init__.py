"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members reconcile by heartbeats.

A rule works on a `group.Draft`: each record that it writes changes the draft at once, through the same
`ConsumerGroup.apply` that replay uses, so the rule works with the state that a failover would restore. `heartbeat` is
the entry point; it finds the member (`member_lookup`), then `assignment` does the three steps of every heartbeat: a
change raises the group's epoch (`subscriptions`), a raised epoch requires a new target (`assignors`), and the member
moves towards its target (`reconciliation`). `sessions` fences members that miss a deadline. `classic_members` answers
JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that still use the classic protocol; `conversion` converts one
kind of group to the other.
"""
