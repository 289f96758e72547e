"""`tidelog reassign-partitions`: the flags and the words of kafka-reassign-partitions."""

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
    the_action,
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
@click.option("--bootstrap-controller", type=Bootstrap(), help="In place of --bootstrap-server; any broker will do.")
@flag("generate", "Propose replicas of topics on these brokers; changes nothing.")
@flag("execute", "Start the moves of a file.")
@flag("verify", "Say how far the moves of a file are, and clear throttles where all is done.")
@flag("cancel", "Cancel the moves of a file.")
@flag("list", "List the moves under way.")
@click.option("--reassignment-json-file", type=FILE, help="Partitions with the replicas they are to have.")
@click.option("--topics-to-move-json-file", type=FILE, help="Topics to propose replicas for.")
@click.option("--broker-list", help="The brokers to propose, as 0,1,2.")
@flag("disable-rack-aware", "Propose without regard to racks.")
@click.option("--throttle", type=int, help="Bytes per second at which brokers copy what moves.")
@click.option(
    "--replica-alter-log-dirs-throttle", type=int, help="Bytes per second of moves between folders of a broker."
)
@flag("additional", "Start moves besides those under way, or change their throttle.")
@click.option(
    "--timeout", type=int, help="Milliseconds until a move between folders must have begun; 10000 if left out."
)
@flag("disallow-replication-factor-change", "Refuse moves that change how many replicas a partition has.")
@flag("preserve-throttles", "Leave throttles as they are.")
@flag("progress", "Also say how many bytes are left, and until when. Kafka's tool does not know this.")
def reassign_partitions(**given: Any) -> None:
    """Move replicas between brokers and folders, with the flags of kafka-reassign-partitions."""
    action = the_action(given, ACTIONS)
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
