"""The real world: sockets, files, clocks and the SQLite store carry out what a `Node` wishes.

`broker.py` starts one broker process, `supervisor.py` a cluster of them. Nothing here decides what a broker does; the
shell feeds inputs to the node, carries out the effects that come back, in order, and tells the node how it went.
"""
