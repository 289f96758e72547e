"""Waiting until the brokers that run have noticed that another one does not."""

from tests.waiting import wait_for
from tidelog.shell.supervisor import metadata_view
from tidelog.testing import Cluster


def wait_gone(cluster: Cluster, number: int) -> None:
    """An audit asks every broker that the others know, and waits ten seconds for one that has just stopped."""

    def is_gone() -> bool:
        views = [metadata_view("127.0.0.1", broker.port).brokers for broker in cluster.brokers if broker.is_running]
        return all(view and number not in view for view in views)

    wait_for(is_gone, f"broker {number} to be gone")
