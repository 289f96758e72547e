"""Producer, consumer and admin as state machines without I/O.

Start at `client.Client`: the worlds report what happened on its connections (`connected`, `connect_failed`,
`received`, `disconnected`) and that time passed (`wake`, at `next_deadline`), carry out the effects that come back,
and take the results (deliveries, records, answers) from the producer, consumer or admin that extends it.

Rules: a client never acts outside of an input or a call; every call that may have to send takes `now`; a request that
was answered by nobody (connection lost, time over) is an answer with a fault, so nothing waits forever.
"""
