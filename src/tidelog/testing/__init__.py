"""A cluster inside the caller's process, for tests and notebooks: `with Cluster() as cluster: … cluster.bootstrap`."""

from tidelog.testing.cluster import Cluster

__all__ = ["Cluster"]
