"""Where the commands of this folder connect to: brokers, or controllers with `--bootstrap-controller`."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import click
from click.core import ParameterSource

from tidelog.cli.options import Bootstrap, Function, cluster_options


class Asks(Protocol):
    """An admin of brokers, or of controllers."""

    def ask(self, request: Any, to: int = ...) -> Any:
        """The response; `to` is a node's ID, or ANY."""


class Place(NamedTuple):
    bootstrap_server: str
    bootstrap_controller: str | None
    command_config: str | None


def place_options(function: Function) -> Function:
    """Add the options of `cluster_options`, and `--bootstrap-controller`."""
    option = click.option(
        "--bootstrap-controller",
        type=Bootstrap(),
        help="Controllers to connect to instead of brokers, as host:port,host:port.",
    )
    return cluster_options(option(function))


def remember(
    context: click.Context, bootstrap_server: str, bootstrap_controller: str | None, command_config: str | None
) -> None:
    """Keep where a group of commands connects to; UsageError if that is said twice."""
    is_given = context.get_parameter_source("bootstrap_server") is not ParameterSource.DEFAULT
    if bootstrap_controller is not None and is_given:
        raise click.UsageError("--bootstrap-server and --bootstrap-controller cannot be used together.", context)
    context.obj = Place(bootstrap_server, bootstrap_controller, command_config)


def connected(*, is_of_node: bool = False) -> AbstractContextManager[Asks]:
    """With `is_of_node` the file of --command-config may be a
    server.properties, which has other options, too."""
    from tidelog.cli.admin_requests import connect

    place: Place = click.get_current_context().obj
    if place.bootstrap_controller is None:
        return connect(place.bootstrap_server, place.command_config, is_of_node=is_of_node)
    from tidelog.cli.cluster.controllers import Controllers

    return Controllers(place.bootstrap_controller, place.command_config, is_of_node=is_of_node)
