"""`tidelog simulate --mutants drawn`: mutants drawn by machine, hunted by unit tests, stories and seeds, in this order.

`drawn_hunt.py` runs in the parent: it draws, hunts, stores and prints (`hunt_results.py`). Each hunt is a process of
its own (`child_main.py` inside it, `child_process.py` outside), because a mutant must be in place from the first import
on; `pytest_plugins.py` reports from pytest to the child. `source_tree.py` lists what can be mutated and which tests
exist, `reached_blocks.py` which tests run which block.
"""
