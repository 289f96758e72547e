"""A cluster inside the caller's process, for tests and notebooks: `with Cluster() as cluster: … cluster.bootstrap`."""

from tidelog.errors import ErrorCode
from tidelog.testing.broker import BrokerCrashed
from tidelog.testing.cluster import Cluster
from tidelog.testing.lifecycle import ClusterClosed

__all__ = ["BrokerCrashed", "Cluster", "ClusterClosed", "ErrorCode"]
