"""What the controller is asked to do, or has to do: each command is a generator of store operations (`journal.Steps`).

A command reads the image, yields what it wants to write, and changes the image when it is resumed: the commit returned.
One runs at a time (`journal.Journal`), and starts over after a conflict, so it may believe what it read.
"""
