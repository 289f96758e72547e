"""The real world: sockets, files, clocks and metadata stores that carry out the effects of a `Node`.

`broker.py` runs one broker process, `supervisor.py` a cluster of them. Nothing here decides what a broker does: the
shell feeds inputs to the node, carries out the effects that it returns, in order, and reports the results to the node.
"""
