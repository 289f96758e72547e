"""A cluster inside the caller's process, for tests and notebooks: `with Cluster() as cluster: … cluster.bootstrap`."""

from tidelog.errors import ErrorCode
from tidelog.testing.broker import BrokerCrashed
from tidelog.testing.cluster import Cluster
from tidelog.testing.history import History
from tidelog.testing.lifecycle import ClusterClosed
from tidelog.testing.requests import Fault, Request

__all__ = ["BrokerCrashed", "Cluster", "ClusterClosed", "ErrorCode", "Fault", "History", "Request"]
