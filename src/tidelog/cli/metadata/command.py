"""The table of `tidelog metadata`."""

import click

from tidelog.cli.lazy import Command, LazyGroup

COMMANDS = {
    "ls": Command("tidelog.cli.metadata.nodes:ls", "List the names below a node."),
    "get": Command("tidelog.cli.metadata.nodes:get", "Print what a node holds."),
    "set": Command("tidelog.cli.metadata.nodes:set_", "Write a node, which is made where there is none."),
    "rm": Command("tidelog.cli.metadata.nodes:rm", "Delete a node."),
    "export": Command("tidelog.cli.metadata.moving:export", "Write the memory of a stopped cluster down."),
    "import": Command("tidelog.cli.metadata.moving:import_", "Fill an empty store with what was written down."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def metadata() -> None:
    """Look at, change and move the cluster's memory: what zkCli does, on either store.

    The tree is Kafka's of its ZooKeeper times: /controller, /brokers/ids, /brokers/topics, /config, /admin. Say where
    it is by --data, the folder of `tidelog up`, by --metadata, sqlite:PATH or zookeeper://HOST:PORT/CHROOT, or by
    --config, a broker's server.properties.
    """
