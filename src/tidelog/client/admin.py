"""Any request to any broker, with retries: the command line, tests and the simulator administer clusters with it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tidelog.client.backoff import Backoff, Entropy
from tidelog.client.client import Client
from tidelog.client.coordinator import coordinator_from
from tidelog.client.link import Answer
from tidelog.client.options import Address, AdminOptions
from tidelog.client.results import Done, code_of
from tidelog.config.alter import Operation
from tidelog.effects import CONTROLLER, Effect
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest

__all__ = ["ANY", "CONTROLLER", "Admin", "Coordinator", "Leader"]

ANY = -1
"""The target of a request that any broker can answer."""


class Leader(NamedTuple):
    """The target of a request for the leader of a partition."""

    topic: str
    partition: int


class Coordinator(NamedTuple):
    """The target of a request for the coordinator of a group, or of a transactional ID if `key_type` is 1."""

    key: str
    key_type: int = 0


Target = int | Leader | Coordinator

_MISROUTED = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Codes that a request to a role receives while the role moves from one broker to another."""


@dataclass(slots=True)
class _PendingRequest:
    ticket: int
    request: Any
    target: Target
    deadline: int
    newest: int
    backoff: Backoff
    retries: bool
    retry_at: int = 0
    last_fault: ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    last_response: Any = None
    metadata_seen: int = -1


class Admin(Client):
    """Requests in, responses out: `ask` returns a ticket, `take_results` the requests that have finished."""

    def __init__(self, bootstrap: Sequence[Address], options: AdminOptions, entropy: Entropy) -> None:
        super().__init__(bootstrap, options, entropy)
        self._options = options
        self._last_ticket = 0
        self._pending: list[_PendingRequest] = []
        self._in_flight: dict[int, _PendingRequest] = {}
        self._coordinators: dict[Coordinator, int] = {}
        self._results: list[Done] = []

    def __repr__(self) -> str:
        return f"<Admin {len(self._pending)} to send, {len(self._in_flight)} on their way>"

    def ask(
        self,
        request: Any,
        target: Target,
        now: Time,
        *,
        timeout_ms: int | None = None,
        newest: int = 32767,
        retries: bool = True,
    ) -> tuple[int, list[Effect]]:
        """Send `request` to `target` in the newest version that both sides support, at most `newest`.

        The ticket's `Done` has the response unchanged, including any error codes in it, or an error after `timeout_ms`.
        Without `retries` the first fault is the result: for requests that must not be sent twice.
        """
        self._last_ticket += 1
        timeout = self._options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        backoff = self.cluster.backoff()
        pending = _PendingRequest(self._last_ticket, request, target, now.mono + timeout, newest, backoff, retries)
        self._pending.append(pending)
        if isinstance(target, Leader):
            self.cluster.add_topics([target.topic], now)
        return pending.ticket, self._turn(now)

    def take_results(self) -> list[Done]:
        """The requests that finished since the last call."""
        results, self._results = self._results, []
        return results

    def close(self, _now: Time) -> list[Effect]:
        """Close all connections; open requests get no result."""
        self._closed = True
        self.network.close()
        return self.network.take_effects()

    def _own_deadline(self) -> int | None:
        return min((min(pending.retry_at, pending.deadline) for pending in self._pending), default=None)

    def _advance(self, now: Time) -> None:
        for pending in list(self._pending):
            if now.mono >= pending.deadline:
                self._pending.remove(pending)
                self._results.append(_timed_out(pending))
            elif now.mono >= pending.retry_at or pending.metadata_seen != self.metadata.updates:
                self._send_pending(pending, now)

    def _send_pending(self, pending: _PendingRequest, now: Time) -> None:
        pending.metadata_seen = self.metadata.updates
        if isinstance(pending.target, Coordinator) and pending.target not in self._coordinators:
            self._look_up_coordinator(pending, pending.target, now)
            return
        node = self._node_for(pending.target, now)
        if node is None:
            pending.retry_at = now.mono + pending.backoff.next_ms()
            return
        self._pending.remove(pending)
        self._in_flight[pending.ticket] = pending
        timeout = min(self._options.request_timeout_ms, pending.deadline - now.mono)
        handle = partial(self._answered, pending)
        self.cluster.send_request(node, pending.request, handle, now, timeout_ms=timeout, newest=pending.newest)

    def _node_for(self, target: Target, now: Time) -> int | None:
        """The node to send the request to; None while it is unknown."""
        if isinstance(target, Coordinator):
            return self._coordinators[target]
        if target == ANY:
            return self.network.any_node(now.mono)
        if isinstance(target, Leader):
            node = self.metadata.leader(TopicPartition(*target))
        else:
            node = self.metadata.controller if target == CONTROLLER else target
        if node is None or node < 0 or not self.network.knows(node):
            self.cluster.request_metadata_update(now)
            return None
        return node

    def _look_up_coordinator(self, pending: _PendingRequest, target: Coordinator, now: Time) -> None:
        node = self.network.any_node(now.mono)
        if node is None:
            pending.retry_at = now.mono + pending.backoff.next_ms()
            return
        request = FindCoordinatorRequest(key=target.key, key_type=target.key_type, coordinator_keys=[target.key])
        self._pending.remove(pending)
        self._in_flight[pending.ticket] = pending
        timeout = min(self._options.request_timeout_ms, pending.deadline - now.mono)
        self.cluster.send_request(
            node, request, partial(self._coordinator_found, pending, target), now, timeout_ms=timeout
        )

    def _coordinator_found(self, pending: _PendingRequest, target: Coordinator, answer: Answer, now: Time) -> None:
        del self._in_flight[pending.ticket]
        self._pending.append(pending)
        code, node = (answer.fault, -1) if answer.fault else coordinator_from(answer.response)[:2]
        if code is ErrorCode.NONE:
            self._coordinators[target] = node
            pending.retry_at = now.mono
        elif code in RETRIABLE or answer.fault:
            pending.last_fault = code
            pending.retry_at = now.mono + pending.backoff.next_ms()
        else:
            self._pending.remove(pending)
            self._results.append(Done(pending.ticket, error=code, message="the coordinator was not found"))

    def _answered(self, pending: _PendingRequest, answer: Answer, now: Time) -> None:
        del self._in_flight[pending.ticket]
        fault = answer.fault
        if not fault:
            fault = _misrouted(answer.response) if pending.retries and _is_role(pending.target) else ErrorCode.NONE
            pending.last_response = answer.response
        if not fault:
            self._results.append(Done(pending.ticket, answer.response))
        elif fault is ErrorCode.UNSUPPORTED_VERSION or not pending.retries:
            self._results.append(Done(pending.ticket, error=fault, message=f"broker {answer.node} did not answer"))
        else:
            self._retry(pending, fault, now)

    def _retry(self, pending: _PendingRequest, fault: ErrorCode, now: Time) -> None:
        if isinstance(pending.target, Coordinator):
            self._coordinators.pop(pending.target, None)
        self.cluster.request_metadata_update(now)
        pending.last_fault = fault
        pending.retry_at = now.mono + pending.backoff.next_ms()
        self._pending.append(pending)


def _is_role(target: Target) -> bool:
    """Whether the target may be a different broker at the next try."""
    return target == CONTROLLER or not isinstance(target, int)


def _timed_out(pending: _PendingRequest) -> Done:
    """The result after the deadline: the last response received, even from a broker that no longer has the role."""
    if pending.last_response is not None:
        return Done(pending.ticket, pending.last_response)
    target = f"broker {pending.target}" if isinstance(pending.target, int) and pending.target >= 0 else "the cluster"
    return Done(pending.ticket, error=pending.last_fault, message=f"{target} did not answer in time")


def _misrouted(response: Any) -> ErrorCode:
    """The first code in the response that says the role is elsewhere, or NONE."""
    return next((code for code in error_codes(response) if code in _MISROUTED), ErrorCode.NONE)


def error_codes(message: Any) -> Iterator[ErrorCode]:
    """All error codes in a response, at any depth."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            yield code_of(value)
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "__slots__") and not isinstance(item, str):
                    yield from error_codes(item)


def alter_configs_request(
    kind: int, name: str, options: Iterable[tuple[str, str | None]]
) -> IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs (KIP-339) that sets these options of one resource, or deletes those whose value is
    None."""
    configs = [
        AlterableConfig(name=option, config_operation=Operation.DELETE if value is None else Operation.SET, value=value)
        for option, value in options
    ]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    )
