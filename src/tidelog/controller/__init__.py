"""The controller: what the cluster is, and who leads what.

Start from `controller.Controller`, the actor every broker owns and at most one of which leads. The metadata tree is the
source of truth: the controller decides from its image of it, writes a multi that checks `/controller_epoch`, and
changes its image only when that commit returns. Its decisions reach brokers by LeaderAndIsr, UpdateMetadata and
StopReplica.

- `tree`: paths and contents of the nodes. `state`: the image. `leaders`, `placement`: pure rules.
- `commands`: one at a time, each a generator that yields store operations. `pushes`: one queue per broker.
- `image`: what every broker (not only the controller) knows about the cluster.
"""
