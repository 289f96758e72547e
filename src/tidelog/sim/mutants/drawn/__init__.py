"""Mutants drawn by machine: `tidelog simulate --mutants drawn`.

`syntax` finds functions, the nodes inside them, and which parameters have one type; `operators` is the table of changes
to them; `drawing` collects all sites and draws some of them by a seed. `importing` replaces a module by its mutant in a
child process, and measures which blocks run; `equivalents` lists the survivors that were reviewed and change nothing.

Nothing here imports the code that it mutates: a child process must install the import hook first.
"""
