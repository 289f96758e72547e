"""The entry point of the command line: the table of commands, and how each kind of failure ends.

Commands are imported when they are called, so `tidelog --help` imports none of them.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


class Command(NamedTuple):
    """Where a command is (`module:attribute`), and its line in `tidelog --help`."""

    target: str
    sentence: str


class LazyGroup(click.Group):
    """A group of commands from a table; `--help` prints the table and imports nothing."""

    def __init__(
        self,
        *arguments: object,
        table: dict[str, Command],
        aliases: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self._table = table
        self._aliases = aliases or {}

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """The command of this name, or of this script of Kafka: `bin/kafka-topics.sh` is `topics`."""
        script = name.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
        name = self._aliases.get(script, script)
        if name not in self._table:
            return None
        module, _, attribute = self._table[name].target.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        from tidelog.cli.examples import add_examples

        add_examples(found, name)
        return found

    def shell_complete(self, context: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands that begin so; click would import each of them."""
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=command.sentence)
            for name, command in self._table.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, context, incomplete)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. Click cannot suggest one, because it does not know the table."""
        name = args[0]
        if not name.startswith("-") and self.get_command(context, name) is None:
            from difflib import get_close_matches

            close = get_close_matches(name, self._table, n=1)
            suggestion = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{name}'.{suggestion}", context)
        return super().resolve_command(context, args)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.sentence) for name, command in self._table.items()])


COMMANDS = {
    "up": Command("tidelog.cli.brokers.start_brokers:up", "Run a cluster of several brokers on this machine."),
    "down": Command("tidelog.cli.brokers.start_brokers:down", "Stop a cluster that runs in the background."),
    "broker": Command(
        "tidelog.cli.brokers.broker_commands:broker", "Run one broker, or stop and start one of a cluster."
    ),
    "storage": Command("tidelog.cli.brokers.storage_command:storage", "Format the log directories of a KRaft node."),
    "topics": Command("tidelog.cli.topics:topics", "Create, list, describe, alter and delete topics."),
    "configs": Command("tidelog.cli.configs:configs", "Describe and alter the options of topics, brokers and groups."),
    "acls": Command("tidelog.cli.acls:acls", "Add, remove and list access control lists."),
    "users": Command("tidelog.cli.security.users:users", "List, add, change and remove SCRAM users."),
    "delegation-tokens": Command(
        "tidelog.cli.security.delegation_tokens:delegation_tokens", "Create, renew, expire and list delegation tokens."
    ),
    "groups": Command("tidelog.cli.groups.groups_command:groups", "List, describe, reset and delete consumer groups."),
    "offsets": Command("tidelog.cli.offsets:offsets", "Print partition offsets: first, last, or by timestamp."),
    "reassign-partitions": Command(
        "tidelog.cli.replicas.reassign_partitions:reassign_partitions",
        "Move replicas between brokers and log directories.",
    ),
    "rebalance": Command(
        "tidelog.cli.replicas.rebalance:rebalance", "Balance replicas, bytes and leaders across brokers."
    ),
    "leader-election": Command("tidelog.cli.replicas.leader_election:leader_election", "Elect partition leaders."),
    "cluster": Command(
        "tidelog.cli.replicas.cluster_command:cluster", "Print the cluster ID, or unregister a dead broker."
    ),
    "features": Command(
        "tidelog.cli.cluster.features_command:features", "Describe, upgrade and downgrade features of the cluster."
    ),
    "quorum": Command(
        "tidelog.cli.cluster.quorum_command:quorum", "Describe the metadata quorum; add and remove controllers."
    ),
    "delete-records": Command(
        "tidelog.cli.replicas.log_commands:delete_records", "Delete the oldest records of partitions."
    ),
    "log-dirs": Command("tidelog.cli.replicas.log_commands:log_dirs", "Describe the log directories of brokers."),
    "transactions": Command(
        "tidelog.cli.transactions:transactions", "List and describe transactions; abort hanging ones."
    ),
    "produce": Command("tidelog.cli.console.produce:produce", "Send lines of standard input as records."),
    "consume": Command("tidelog.cli.console.consume:consume", "Print records as lines."),
    "dump-log": Command("tidelog.cli.dump_log:dump_log", "Dump the files of a log directory."),
    "status": Command(
        "tidelog.cli.status.status_command:status", "Show each replica's log end offset, high watermark and lag."
    ),
    "console": Command("tidelog.console.console_command:console", "Serve a web console for the cluster."),
    "explain": Command("tidelog.cli.explain.explain_command:explain", "Diagnose the cluster and suggest fixes."),
    "metadata": Command("tidelog.cli.metadata:metadata", "Inspect, edit, export and import cluster metadata."),
    "chaos": Command("tidelog.cli.chaos:chaos", "Inject faults into broker processes and check what clients saw."),
    "check": Command("tidelog.cli.check:check", "Run clients against a cluster and check what they saw."),
    "fuzz": Command("tidelog.cli.fuzz:fuzz", "Send malformed requests to a cluster and check that it serves others."),
    "audit": Command("tidelog.cli.audit.audit_command:audit", "Compare the logs of all replicas of each partition."),
    "lab": Command("tidelog.cli.lab:lab", "Play replication stories on real nodes, step by step."),
    "pipeline": Command("tidelog.cli.pipeline:pipeline", "List and run Spark pipelines over topics."),
    "simulate": Command(
        "tidelog.cli.simulate.simulate_command:simulate", "Run simulated clusters from seeds and check invariants."
    ),
    "completion": Command("tidelog.cli.completion:completion", "Print the completion script of a shell."),
}

SCRIPTS = {
    "tokens": "delegation-tokens",
    "server-start": "broker",
    "consumer-groups": "groups",
    "get-offsets": "offsets",
    "metadata-quorum": "quorum",
    "console-producer": "produce",
    "console-consumer": "consume",
    "zookeeper-shell": "metadata",
    "zkCli": "metadata",
}
"""Other names of commands. Most are those of Kafka's tools: `tidelog kafka-get-offsets.sh …` runs `tidelog offsets …`.
Other tools need no entry: `tidelog kafka-topics.sh …` runs `tidelog topics …`."""


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from tidelog import __version__

        click.echo(f"tidelog {__version__}")
        context.exit()


@click.group(cls=LazyGroup, table=COMMANDS, aliases=SCRIPTS, context_settings={"help_option_names": ["--help", "-h"]})
@click.option("--version", is_flag=True, expose_value=False, callback=_print_version, help="Print the version.")
def tidelog() -> None:
    """Tidelog: Apache Kafka's replicated log in Python.

    Any Kafka client works unchanged. `tidelog up --data DIR` starts a cluster. The other commands work with it or with
    any Kafka cluster, and take the flags of Kafka's own tools.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; a failure prints one message to stderr."""
    try:
        result = tidelog.main(list(arguments), prog_name="tidelog", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:  # no command is no mistake
        click.echo(error.ctx.get_help() if error.ctx else "")
        return 0
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does. Replacing stdout keeps the interpreter's last flush from failing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as error:
        message = _error_message(error)
        if message is None:
            raise
        click.echo(re.sub(r"^\[Errno \d+\] ", "", message), err=True)
        return _exit_code(error)
    return result if isinstance(result, int) else 0


def _exit_code(error: Exception) -> int:
    from tidelog.cli.options import CommandFailed

    return error.exit_code if isinstance(error, CommandFailed) else EXIT_FAILED


def _error_message(error: Exception) -> str | None:
    """The message of an expected failure; None for a bug of this program."""
    from tidelog.errors import ApiError, InvalidOption

    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "tidelog"
        message = error.format_message().replace("valid integer range", "valid integer").replace("float range", "float")
        return f"{where}: {message if message.endswith(('.', '?')) else f'{message}.'} See {where} --help."
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, ApiError):
        from tidelog.cli.admin_requests import describe_error

        return describe_error(error.code, error.message)
    return str(error) if isinstance(error, InvalidOption | OSError) else None


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
