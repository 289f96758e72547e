"""One file per Kafka API: a request becomes a response, or a wait.

Start from `registry.APIS`, the table of everything served. A handler is `handle(request, context)` in the file that
the table names; it returns a response, `Deferred` (a wait for partitions), `PENDING` (an actor will reply) or None (no
answer is sent).
"""
