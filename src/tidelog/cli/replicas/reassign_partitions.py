"""`tidelog reassign-partitions`, with the flags of kafka-reassign-partitions."""

from typing import Any

import click

from tidelog.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    at_most_one,
    broker_ids,
    check_applicable,
    check_required,
    cluster_options,
    flag,
    single_action,
)

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
FILE = click.Path(exists=True, dir_okay=False)
ACTIONS_OF_OPTION = {
    "reassignment-json-file": ("execute", "verify", "cancel"),
    "topics-to-move-json-file": ("generate",),
    "broker-list": ("generate",),
    "disable-rack-aware": ("generate",),
    "throttle": ("execute",),
    "replica-alter-log-dirs-throttle": ("execute",),
    "additional": ("execute",),
    "disallow-replication-factor-change": ("execute",),
    "timeout": ("execute", "cancel"),
    "preserve-throttles": ("verify", "cancel"),
    "progress": ("list", "verify"),
    "bootstrap-controller": ("cancel", "list"),
}
REQUIRED_OPTIONS = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
}


@click.command()
@cluster_options
@click.option("--bootstrap-controller", type=Bootstrap(), help="Any broker; the same as --bootstrap-server.")
@flag("generate", "Propose an assignment for topics, without executing it.")
@flag("execute", "Start the moves of a file.")
@flag("verify", "Report progress of the moves of a file; clear throttles when done.")
@flag("cancel", "Cancel the moves of a file.")
@flag("list", "List moves in progress.")
@click.option("--reassignment-json-file", type=FILE, help="JSON file: partitions and their new replicas.")
@click.option("--topics-to-move-json-file", type=FILE, help="JSON file: topics to propose replicas for.")
@click.option("--broker-list", help="Brokers to place replicas on, e.g. 0,1,2.")
@flag("disable-rack-aware", "Ignore racks when proposing replicas.")
@click.option("--throttle", type=int, help="Limit for copying between brokers, in bytes/s.")
@click.option(
    "--replica-alter-log-dirs-throttle", type=int, help="Limit for copying between log directories, in bytes/s."
)
@flag("additional", "Add to the moves in progress, or change their throttle.")
@click.option("--timeout", type=int, help="Timeout for starting moves between log directories, in ms (default: 10000).")
@flag("disallow-replication-factor-change", "Reject moves that change the number of replicas.")
@flag("preserve-throttles", "With --verify or --cancel: keep the throttles.")
@flag("progress", "Also show bytes and time left (not in Kafka's tool).")
def reassign_partitions(**given: Any) -> None:
    """Move replicas between brokers and log directories, with the flags of kafka-reassign-partitions."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    check_required(given, action, REQUIRED_OPTIONS.get(action, ()))
    controller = given["bootstrap_controller"]
    if controller and given["bootstrap_server"] != DEFAULT_BOOTSTRAP:
        at_most_one(given, ("bootstrap-server", "bootstrap-controller"))
    if given["broker_list"] is not None:
        given["broker_list"] = broker_ids(given["broker_list"])
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.replicas import reassignment_actions

    with connect(controller or given["bootstrap_server"], given["command_config"]) as admin:
        reassignment_actions.RUN[action](admin, given)
