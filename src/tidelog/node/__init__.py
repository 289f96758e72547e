"""One broker without I/O: inputs in, effects out.

Start from `node.Node`. `dispatch` turns frames into handler calls and answers into frames; `purgatory` holds deferred
answers; `replicas` holds this broker's logs; `fetching` follows leaders; `peers` sends requests to other brokers;
`membership` registers the broker in the metadata tree; `controller_pushes` applies what the controller pushes;
`isr_proposals` requests ISR changes from the controller; `coordinating` gives the coordinators their partitions;
`security` says who is connected and what that principal may do; `quorum` makes the node a member of a metadata quorum;
`upkeep` is everything that is due by the clock.
"""
