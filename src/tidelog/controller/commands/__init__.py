"""What the controller does, on request or by itself: each command is a generator of store operations (`journal.Steps`).

A command reads the image, yields its writes, and changes the image when it is resumed: the commit has returned. One
runs at a time (`journal.Journal`), and restarts after a conflict, so it may trust what it read.
"""
