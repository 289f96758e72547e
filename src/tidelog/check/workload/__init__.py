"""The history checker's workload: clients on real sockets that write down what they do and see.

`workload.Workload` runs it; `history` judges what it wrote down. Rules: a value is sent at most once to its partition;
a process whose call got no clear answer is retired, and its successor has another number; whatever a consumer hands out
is written down.
"""
