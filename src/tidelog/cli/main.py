"""The entry of the command line: the table of commands, and how each kind of failure ends."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import click

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


class Command(NamedTuple):
    """Where a command is (`module:attribute`), and what it does in one sentence."""

    target: str
    sentence: str


class LazyGroup(click.Group):
    """`--help` lists the sentences of the table and imports nothing."""

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
        """By its name in the table, or by that of the script that it stands for: `bin/kafka-topics.sh`."""
        script = name.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
        name = self._aliases.get(script, script)
        if name not in self._table:
            return None
        module, _, attribute = self._table[name].target.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.sentence) for name, command in self._table.items()])


COMMANDS = {
    "up": Command("tidelog.cli.start_brokers:up", "Run a cluster of several brokers on this machine."),
    "broker": Command("tidelog.cli.start_brokers:broker", "Run one broker from a server.properties file."),
    "topics": Command("tidelog.cli.topics:topics", "Create, list, describe, alter and delete topics."),
    "configs": Command("tidelog.cli.configs:configs", "Describe and alter the options of topics, brokers and groups."),
    "groups": Command("tidelog.cli.groups.groups_command:groups", "List, describe, reset and delete consumer groups."),
    "offsets": Command("tidelog.cli.offsets:offsets", "Print offsets of partitions: first, last, or by time."),
    "reassign-partitions": Command(
        "tidelog.cli.replicas.reassign_partitions:reassign_partitions", "Move replicas between brokers and folders."
    ),
    "rebalance": Command("tidelog.cli.replicas.rebalance:rebalance", "Spread replicas and leaders over brokers."),
    "leader-election": Command("tidelog.cli.replicas.leader_election:leader_election", "Elect leaders of partitions."),
    "cluster": Command(
        "tidelog.cli.replicas.cluster_command:cluster", "Tell the cluster's id, or give a dead broker up."
    ),
    "delete-records": Command("tidelog.cli.replicas.log_commands:delete_records", "Delete the oldest records."),
    "log-dirs": Command("tidelog.cli.replicas.log_commands:log_dirs", "Describe what log folders hold."),
    "transactions": Command(
        "tidelog.cli.transactions:transactions", "List and describe transactions, abort hanging ones."
    ),
    "produce": Command("tidelog.cli.console.produce:produce", "Send the lines of standard input as records."),
    "consume": Command("tidelog.cli.console.consume:consume", "Print records as lines."),
    "dump-log": Command("tidelog.cli.dump_log:dump_log", "Print what stands in the files of a log folder."),
    "status": Command("tidelog.cli.status:status", "Show each replica's log end offset, watermark and lag."),
    "explain": Command(
        "tidelog.cli.explain.explain_command:explain", "Say why things are as they are, and what helps."
    ),
    "metadata": Command("tidelog.cli.metadata:metadata", "Look at, change and move the cluster's memory."),
    "chaos": Command("tidelog.cli.chaos:chaos", "Break real broker processes while clients write and read, and judge."),
    "check": Command("tidelog.cli.check:check", "Write and read a cluster, and judge what its clients saw."),
    "audit": Command(
        "tidelog.cli.audit.audit_command:audit", "Compare what the replicas of each partition really hold."
    ),
    "lab": Command("tidelog.cli.lab:lab", "Tell stories of replication on real brokers, step by step."),
    "pipeline": Command("tidelog.cli.pipeline:pipeline", "List and run pipelines over topics on Spark."),
    "simulate": Command(
        "tidelog.cli.simulate.simulate_command:simulate", "Run clusters in a seeded world and check them."
    ),
}

SCRIPTS = {
    "server-start": "broker",
    "consumer-groups": "groups",
    "get-offsets": "offsets",
    "console-producer": "produce",
    "console-consumer": "consume",
    "zookeeper-shell": "metadata",
    "zkCli": "metadata",
}
"""Kafka's tools by the command that does the same, where that has another name: `tidelog kafka-get-offsets.sh …` is
`tidelog offsets …`, and `tidelog kafka-topics.sh …` plainly `tidelog topics …`."""


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"tidelog {version('tidelog')}")
        except PackageNotFoundError:
            click.echo("tidelog, run from its source")
        context.exit()


@click.group(cls=LazyGroup, table=COMMANDS, aliases=SCRIPTS, context_settings={"help_option_names": ["--help", "-h"]})
@click.option("--version", is_flag=True, expose_value=False, callback=_print_version, help="Print the version.")
def tidelog() -> None:
    """Tidelog: Apache Kafka's replicated log in Python.

    Any Kafka client uses it unchanged. `tidelog up --data DIR` starts a cluster; the other commands talk to it, or to
    any Kafka cluster, and take the flags of Kafka's own tools.
    """


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; its exit code. Whatever goes wrong is one sentence on stderr."""
    try:
        result = tidelog.main(list(arguments), prog_name="tidelog", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our lines has seen enough; the interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        click.echo(sentence, err=True)
        return EXIT_FAILED
    return result if isinstance(result, int) else 0


def _sentence(error: Exception) -> str | None:
    """What an expected failure has to say; None for a fault of this program."""
    from tidelog.errors import ApiError, InvalidOption

    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "tidelog"
        return f"{where}: {error.format_message()} See {where} --help."
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
