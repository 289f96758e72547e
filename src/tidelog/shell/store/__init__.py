"""The metadata store in SQLite or in ZooKeeper, and the thread on which any store is called.

`places` says which one is meant and opens it. `sqlite_store.SqliteStore` is one session with the tree that
`sqlite_tree` keeps in a file; `keeper` renews its lease and watches the others' by the rules of `sessions`, and writers
queue by those of `turns`.
`zookeeper_store.ZookeeperStore` is one session with ZooKeeper, over kazoo. `thread` brings what happens there to the
event loop.
"""
