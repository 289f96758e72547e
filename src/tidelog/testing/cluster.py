"""`Cluster`: brokers of one cluster in the caller's process, on free ports, in a temporary folder."""

from tidelog.testing.assertions import Assertions


class Cluster(Assertions):
    """`with Cluster(brokers=3, min_insync_replicas=2) as cluster:` and clients connect to `cluster.bootstrap`; in
    coroutines, `async with`.

    Overrides are options of every broker, as keywords with '_' for '.', or by Kafka's names in `options`. Without
    `folder` the data is deleted when the cluster is closed. With `secure`, clients need what is in `client_options`:
    TLS, and the password of the user `admin`, who may do everything.

    docs/testing.md describes every method, and what clients then see.
    """
