"""Producer, consumer and admin as state machines without I/O.

Start at `client.Client`. A world reports what happens on its connections (`connected`, `connect_failed`, `received`,
`disconnected`) and that time has passed (`wake`, at `next_deadline`), carries out the returned effects, and takes the
results (deliveries, records, responses) from the producer, consumer or admin that extends it.

Rules: a client acts only inside an input or a call; every call that may send takes `now`; a request that no broker
answers (connection lost, timeout) gets an answer with a fault, so nothing waits forever.
"""
