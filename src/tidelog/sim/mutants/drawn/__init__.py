"""Mutants drawn by machine: `tidelog simulate --mutants drawn`.

`walking` finds functions and the places inside them, `operators` is the table of what may be changed there,
`signatures` knows which arguments have one type, and `drawing` collects all sites and draws some of them by a seed.
`importing` puts a mutant in the place of its module, in a process of its own; `probes` shows which blocks run;
`equivalents` lists the survivors that were read and change nothing.

Nothing here imports the code that it mutates: a child process must install the import hook first.
"""
