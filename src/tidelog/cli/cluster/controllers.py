"""Requests to the controllers of a metadata quorum: one connection for each, which ends with the answer (KIP-919)."""

import socket
from contextlib import ExitStack
from typing import Any, Self

from tidelog.cli.admin_requests import check_reachable
from tidelog.cli.options import CommandFailed, file_options
from tidelog.client import properties
from tidelog.client.admin import ANY
from tidelog.client.options import AdminOptions
from tidelog.errors import ApiError, ProtocolViolation
from tidelog.model import NO_LEADER
from tidelog.shell import client_sockets
from tidelog.shell.blocking_frames import exchange
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.brokers import DescribeClusterRequest
from tidelog.wire.messages.cluster.features import ApiVersionsRequest

CLIENT_ID = "tidelog-cli"
TIMEOUT_S = 30.0
API_VERSIONS, NEGOTIATED = 18, 3
CONTROLLERS = 2
Address = tuple[str, int]


class Controllers:
    """As the admin of `shell.transport`, for the requests that controllers serve. Use as a context. The file of
    `command_config` says how to log in; with `is_of_node` it may be a server.properties, with other options."""

    def __init__(self, bootstrap: str, command_config: str | None, *, is_of_node: bool = False) -> None:
        check_reachable(bootstrap)
        given = file_options(command_config)
        if is_of_node:
            given = properties.among_others(AdminOptions, given)
        options = properties.options(AdminOptions, {"client.id": CLIENT_ID, **given})
        self._security = client_sockets.security(options)
        self._bootstrap = list(client_sockets.addresses(bootstrap))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"Controllers({self._bootstrap})"

    def ask(self, request: Any, to: int = ANY) -> Any:
        """The response of the leader, or of the controller with this ID. CommandFailed if there is none."""
        if isinstance(request, DescribeClusterRequest):
            return self._described()
        if isinstance(request, ApiVersionsRequest) and to == ANY:
            return self._first(request)
        described = self._described()
        wanted = described.controller_id if to == ANY else to
        if wanted == NO_LEADER:
            raise CommandFailed("The metadata quorum has no leader.")
        found = [(each.host, each.port) for each in described.brokers if each.broker_id == wanted]
        if not found:
            raise CommandFailed(f"Node {wanted} is not a controller.")
        return self._exchange(found[0], request)

    def _described(self) -> Any:
        response = self._first(DescribeClusterRequest(endpoint_type=CONTROLLERS))
        if response.error_code:
            raise ApiError(response.error_code, response.error_message)
        return response

    def _first(self, request: Any) -> Any:
        """The answer of the first bootstrap address that gives one."""
        *others, last = self._bootstrap
        for address in others:
            try:
                return self._exchange(address, request)
            except CommandFailed:
                continue
        return self._exchange(last, request)

    def _exchange(self, address: Address, request: Any) -> Any:
        """The response, in the newest version that both sides support."""
        try:
            with ExitStack() as stack:
                connection: Any = socket.create_connection(address, TIMEOUT_S)
                stack.callback(connection.close)
                if self._security is not None:
                    connection = self._security.log_in(connection, address[0])
                    stack.callback(connection.close)
                own = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
                served = exchange(connection, API_VERSIONS, NEGOTIATED, own, CLIENT_ID).api_keys
                key = request.__key__
                highest = [api.max_version for api in served if api.api_key == key]
                if not highest:
                    raise CommandFailed(f"{address[0]}:{address[1]} does not support {SCHEMAS[key].name}.")
                version = min(highest[0], SCHEMAS[key].max_version)
                return exchange(connection, key, version, request, CLIENT_ID)
        except (OSError, ProtocolViolation) as error:
            raise CommandFailed(f"The controller at {address[0]}:{address[1]} did not answer: {error}.") from None
