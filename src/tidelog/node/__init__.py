"""One broker without I/O: inputs in, effects out.

Start from `node.Node`. `dispatch` turns frames into handler calls and answers into frames; `waiting` holds answers
that are not there yet; `replicas` holds this broker's logs; `fetching` follows leaders; `peers` carries requests to
other brokers; `membership` registers the broker in the metadata tree; `isr` asks the controller for ISR changes;
`coordinating` gives the group coordinator the partitions it works on; `jobs` is everything that is due by the clock.
"""
