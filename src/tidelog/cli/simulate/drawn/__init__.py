"""`tidelog simulate --mutants drawn`: mutants drawn by machine, hunted by unit tests, stories and seeds, in this order.

`hunting` is the parent: it draws, hunts and prints (`printing`). Each hunt is a process of its own (`child` inside it,
`children` outside), for a mutant is there from the first import on; `pytest_plugins` are what pytest tells a child.
`tree` says what there is to mutate and to test, `reach` which tests run which block, `keeping` what is known already.
"""
