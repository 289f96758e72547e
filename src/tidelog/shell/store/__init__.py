"""The metadata store in SQLite or in ZooKeeper, and the thread on which a store is called.

`store_address` parses which store is configured and opens it. `sqlite_store.SqliteStore` is one session with the tree
that `sqlite_tree` keeps in a file; `sqlite_keeper` renews its lease and watches other sessions by the rules of
`sqlite_sessions`, and writers queue by those of `sqlite_turns`; `sqlite_seal` notices damage.
`zookeeper_store.ZookeeperStore` is one session with ZooKeeper, over kazoo. `store_thread` forwards results and events
to the event loop.
"""
