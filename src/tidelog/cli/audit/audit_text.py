"""The audit report as text: a table with a row per replica, then the findings."""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tidelog.audit.core.finding import KINDS, Finding
from tidelog.audit.core.report import PartitionView, ReplicaView, Report

WIDE = 200
MAX_EPOCHS = 6
UNITS = ("B", "kB", "MB", "GB", "TB")


def draw(report: Report, console: Console | None = None) -> None:
    out = console or Console(highlight=False, soft_wrap=True)
    if not out.is_terminal:
        out.width = WIDE
    out.print(table(report))
    for line in lines(report):
        out.print(line)


def table(report: Report) -> Table:
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("PARTITION", "BROKER", "FROM"):
        found.add_column(name, no_wrap=True)
    for name in ("START", "HW", "END", "BATCHES", "SIZE"):
        found.add_column(name, justify="right", no_wrap=True)
    found.add_column("EPOCHS")
    found.add_column("")
    for partition in report.partitions:
        for replica in partition.replicas:
            found.add_row(*_cells(report, partition, replica))
    return found


def _cells(report: Report, partition: PartitionView, replica: ReplicaView) -> Iterator[str]:
    marks = [each for each in report.of(partition) if replica.broker in each.brokers]
    yield escape(partition.name) if replica is partition.replicas[0] else ""
    yield f"{replica.broker}{' leads' if replica.broker == partition.leader else ''}"
    yield replica.source
    yield from (_offset(each) for each in (replica.start, replica.high_watermark, replica.end))
    yield f"{replica.batches:,}"
    yield size(replica.bytes)
    yield epochs(replica)
    yield ", ".join(dict.fromkeys(_coloured(each) for each in marks))


def _offset(offset: int) -> str:
    return "" if offset < 0 else str(offset)


def size(count: float) -> str:
    """A size in bytes with a unit, such as `1.5 MB`."""
    unit = 0
    while count >= 1000 and unit + 1 < len(UNITS):
        count /= 1000
        unit += 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 else f"{count:.1f} {UNITS[unit]}"


def epochs(replica: ReplicaView) -> str:
    """The latest leader epochs, as `epoch@start offset`."""
    texts = [f"{epoch}@{start}" for epoch, start in replica.epochs]
    return " ".join(["…", *texts[-MAX_EPOCHS:]] if len(texts) > MAX_EPOCHS else texts)


def _coloured(each: Finding) -> str:
    return f"[red]{each.kind}[/]" if each.is_broken else f"[dim]{each.kind}[/]"


def lines(report: Report) -> Iterator[str]:
    for each in report.findings:
        who = f" broker {', '.join(map(str, each.brokers))}" if len(each.brokers) == 1 else ""
        invariant = KINDS[each.kind].invariant
        rule = f" ({invariant})" if invariant else ""
        yield f"{_coloured(each)}{rule} {escape(each.location)}{who}: {escape(each.sentence)}"
    broken = sum(each.is_broken for each in report.findings)
    verdict = "[green]ok[/]" if report.is_good else f"[red]{broken} broken[/]"
    yield f"{read_summary(report)} in {report.seconds:.1f} s: {verdict}"


def read_summary(report: Report) -> str:
    """The number of partitions and replicas, and the bytes read."""
    replicas = sum(len(partition.replicas) for partition in report.partitions)
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((len(report.partitions), "partition"), (replicas, "replica"))
    ]
    return ", ".join([*counts, size(report.bytes)])
