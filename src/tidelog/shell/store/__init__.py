"""The metadata store of many processes on one machine, in SQLite, and the thread on which any store is called.

`sqlite_store.SqliteStore` is one session with the tree that `sqlite_tree` keeps in a file; `keeper` renews its lease
and watches the others' by the rules of `sessions`; `thread` brings what happens there to the event loop.
"""
