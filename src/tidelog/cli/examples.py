"""Examples of each command, which end its `--help`. `tests/cli/test_help.py` parses all of them."""

from collections.abc import Mapping, Sequence

import click

EXAMPLES: Mapping[str, Sequence[str]] = {
    "up": ("up --data ./data", "up --brokers 1 --data ./data --port 0 --detach", "up --data ./data --secure"),
    "down": ("down --data ./data",),
    "broker": ("broker server.properties", "broker restart 1 --data ./data"),
    "broker restart": ("broker restart 1 --data ./data",),
    "broker run": ("broker run server.properties --override log.retention.hours=24",),
    "broker start": ("broker start 1 --data ./data",),
    "broker stop": ("broker stop 1 --data ./data",),
    "topics": (
        "topics --create --topic flights --partitions 6",
        "topics --describe --topic flights",
        "topics --alter --topic flights --partitions 12",
    ),
    "configs": (
        "configs --describe --topic flights --all",
        "configs --alter --topic flights --add-config retention.ms=86400000",
        "configs --alter --client loader --add-config producer_byte_rate=5000000",
    ),
    "acls": (
        "acls --add --allow-principal User:bob --consumer --topic flights --group '*'",
        "acls --list --topic flights",
    ),
    "users": ("users add bob", "users list"),
    "users add": ("users add bob", "users add bob --password-file password.txt"),
    "users change": ("users change bob",),
    "users list": ("users list",),
    "users remove": ("users remove bob",),
    "delegation-tokens": (
        "delegation-tokens --create --max-life-time-period 86400000 --command-config client.properties",
        "delegation-tokens --describe --command-config client.properties",
    ),
    "groups": (
        "groups --list",
        "groups --describe --group readers",
        "groups --reset-offsets --group readers --topic flights --to-earliest --dry-run",
    ),
    "offsets": ("offsets --topic flights", "offsets --topic flights --time earliest"),
    "reassign-partitions": (
        "reassign-partitions --execute --reassignment-json-file moves.json --throttle 10000000",
        "reassign-partitions --list --progress",
    ),
    "rebalance": ("rebalance --plan", "rebalance --execute --throttle 10000000"),
    "leader-election": (
        "leader-election --election-type preferred --all-topic-partitions",
        "leader-election --election-type unclean --topic flights --partition 0",
    ),
    "cluster": ("cluster cluster-id", "cluster unregister --id 3"),
    "cluster cluster-id": ("cluster cluster-id",),
    "cluster unregister": ("cluster unregister --id 3",),
    "features": ("features describe", "features upgrade --feature eligible.leader.replicas.version=1 --dry-run"),
    "features describe": ("features describe",),
    "features disable": ("features disable --feature eligible.leader.replicas.version",),
    "features downgrade": ("features downgrade --feature eligible.leader.replicas.version=0",),
    "features feature-dependencies": ("features feature-dependencies --feature eligible.leader.replicas.version=1",),
    "features upgrade": ("features upgrade --feature eligible.leader.replicas.version=1 --dry-run",),
    "features version-mapping": ("features version-mapping --release-version 4.0",),
    "quorum": ("quorum describe --status", "quorum --command-config server.properties add-controller"),
    "quorum add-controller": ("quorum add-controller --dry-run",),
    "quorum describe": ("quorum describe --status", "quorum describe --replication --human-readable"),
    "quorum remove-controller": (
        "quorum remove-controller --controller-id 3 --controller-directory-id Qf8mmoXSRFGRqbHCkWi4ZQ",
    ),
    "delete-records": ("delete-records --offset-json-file offsets.json",),
    "log-dirs": ("log-dirs --describe", "log-dirs --describe --topic-list flights --broker-list 0"),
    "transactions": ("transactions list", "transactions find-hanging --broker-id 0"),
    "transactions abort": ("transactions abort --topic flights --partition 0 --start-offset 100",),
    "transactions describe": ("transactions describe --transactional-id loader",),
    "transactions describe-producers": ("transactions describe-producers --topic flights --partition 0",),
    "transactions find-hanging": ("transactions find-hanging --broker-id 0",),
    "transactions forceTerminateTransaction": ("transactions forceTerminateTransaction --transactionalId loader",),
    "transactions list": ("transactions list", "transactions list --duration-filter 60000"),
    "produce": (
        "produce --topic flights < lines.txt",
        "produce --topic flights --property parse.key=true --property key.separator=,",
    ),
    "consume": (
        "consume --topic flights --from-beginning",
        "consume --topic flights --group readers --max-messages 10",
    ),
    "storage": (
        "storage random-uuid",
        "storage format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw --standalone",
    ),
    "storage format": (
        "storage format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw --standalone",
        "storage format -c server.properties -t 4L6g3nShT-eMCtK--X86sw --no-initial-controllers",
    ),
    "storage info": ("storage info --config server.properties",),
    "storage random-uuid": ("storage random-uuid",),
    "dump-log": ("dump-log --files data/broker-0/flights-0 --print-data-log",),
    "status": ("status --topic flights", "status --watch"),
    "console": ("console --bootstrap 127.0.0.1:9092", "console --port 8080 --allow-changes"),
    "explain": ("explain cluster", "explain partition flights-0", "explain group readers"),
    "explain access": ("explain access --principal User:alice --topic flights",),
    "explain broker": ("explain broker 1",),
    "explain cluster": ("explain cluster", "explain cluster --json"),
    "explain group": ("explain group readers",),
    "explain partition": ("explain partition flights-0",),
    "explain timeline": ("explain timeline flights-0",),
    "explain topic": ("explain topic flights",),
    "metadata": ("metadata ls /brokers/ids --data ./data", "metadata get /controller --data ./data"),
    "metadata export": ("metadata export metadata.jsonl --data ./data",),
    "metadata get": ("metadata get /brokers/topics/flights --data ./data",),
    "metadata import": ("metadata import metadata.jsonl --metadata zookeeper://127.0.0.1:2181/tidelog",),
    "metadata ls": ("metadata ls /brokers/ids --data ./data",),
    "metadata rm": ("metadata rm /controller --data ./data",),
    "metadata set": ("metadata set /admin/note '{}' --data ./data",),
    "chaos": ("chaos --seconds 60 --seed 7", "chaos --faults kill,pause --report ./report"),
    "check": ("check run --seconds 60 --out history.jsonl", "check verify history.jsonl"),
    "check run": ("check run --bootstrap 127.0.0.1:9092 --seconds 60 --out history.jsonl",),
    "check verify": ("check verify history.jsonl",),
    "fuzz": ("fuzz --bootstrap 127.0.0.1:9092 --frames 10000 --seed 7",),
    "audit": (
        "audit --bootstrap 127.0.0.1:9092",
        "audit --folder data --html audit.html",
        "audit --folder data --history history.jsonl --local",
    ),
    "lab": ("lab list", "lab run zombie-fetch --step", "lab run loss-by-high-watermark --html story.html"),
    "lab list": ("lab list",),
    "lab run": (
        "lab run two-fetches-to-commit --step",
        "lab run loss-by-high-watermark --truncation high_watermark --html story.html",
    ),
    "pipeline": ("pipeline list", "pipeline run flights --checkpoint flights.state --once"),
    "pipeline list": ("pipeline list",),
    "pipeline run": (
        "pipeline run flights --checkpoint flights.state --once",
        "pipeline run lake --checkpoint lake.state --option topic=orders --option path=/data/orders",
    ),
    "simulate": ("simulate --seeds 100", "simulate --seed 7 --transcript", "simulate --seed 7 --shrink"),
    "completion": ("completion bash >> ~/.bashrc", "completion fish > ~/.config/fish/completions/tidelog.fish"),
}


def add_examples(command: click.Command, name: str) -> None:
    """End the help of the command, and of those in it, with their examples."""
    if isinstance(command, click.Group):
        for each in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), each)
            if inner is not None:
                add_examples(inner, f"{name} {each}")
    lines = EXAMPLES.get(name)
    if lines and "Examples:\n" not in (command.epilog or ""):
        examples = "\n".join(f"  tidelog {line}" for line in lines)
        command.epilog = f"\b\nExamples:\n{examples}\n\n{command.epilog or ''}".rstrip()
