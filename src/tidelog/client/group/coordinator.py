"""Who coordinates a group: looked up when first needed, and again when it turns out to be another broker."""

from tidelog.client.cluster import Cluster
from tidelog.client.link import Answer
from tidelog.client.network import COORDINATOR_LINKS
from tidelog.client.results import code_of
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import Time
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1

LOST = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Answers that mean that the coordinator must be looked up again."""


class CoordinatorFinder:
    """The coordinator of one key. `refused` is set where it will never be found."""

    def __init__(self, cluster: Cluster, key: str, key_type: int = GROUP) -> None:
        self._cluster = cluster
        self._key = key
        self._key_type = key_type
        self._node: int | None = None
        self._is_asking = False
        self._backoff = cluster.backoff()
        self.retry_at = 0
        self.refused = ErrorCode.NONE

    def __repr__(self) -> str:
        return f"<CoordinatorFinder {self._key!r} node={self._node}>"

    def node(self, now: Time) -> int | None:
        """The node to ask; None while it is looked up."""
        if self._node is None and not self._is_asking and now.mono >= self.retry_at and not self.refused:
            self._look_up(now)
        return self._node

    @property
    def is_known(self) -> bool:
        return self._node is not None

    @property
    def deadline(self) -> int | None:
        return self.retry_at if self._node is None and not self._is_asking and not self.refused else None

    def lost(self, now: Time) -> None:
        """It is not there any more."""
        if self._node is not None:
            self._node = None
            self.retry_at = now.mono + self._backoff.next_ms()

    def judge(self, code: ErrorCode, fault: ErrorCode, now: Time) -> bool:
        """Whether an answer means that the request is to be sent again, perhaps to another broker."""
        if (fault and fault is not ErrorCode.UNSUPPORTED_VERSION) or code in LOST:
            self.lost(now)
            return True
        return code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _look_up(self, now: Time) -> None:
        node = self._cluster.network.any_node(now.mono)
        if node is None:
            self.retry_at = self._cluster.network.next_usable_at
            return
        self._is_asking = True
        request = FindCoordinatorRequest(key=self._key, key_type=self._key_type, coordinator_keys=[self._key])
        self._cluster.ask(node, request, self._found, now)

    def _found(self, answer: Answer, now: Time) -> None:
        self._is_asking = False
        code = answer.fault
        if answer.response is not None:
            code, node, host, port = coordinator_in(answer.response)
            if not code:
                self._node = COORDINATOR_LINKS + node
                self._cluster.network.add(self._node, host, port)
                self._backoff.succeeded()
                return
            if code not in RETRIABLE:
                self.refused = code
        self.retry_at = now.mono + self._backoff.next_ms()


def coordinator_in(response: FindCoordinatorResponse) -> tuple[ErrorCode, int, str, int]:
    """(error, broker id, host, port) of the one coordinator that was asked for, in all versions."""
    found = response.coordinators[0] if response.coordinators else response
    return code_of(found.error_code), found.node_id, found.host, found.port
