"""`tidelog dump-log`, with the flags of kafka-dump-log: prints files of a log directory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tidelog.cli import internal_records as internal
from tidelog.cli import log_file_text
from tidelog.cli.options import CommandFailed, at_most_one, flag
from tidelog.errors import CorruptLog
from tidelog.log import checkpoints, names

READERS = {
    names.INDEX: log_file_text.offset_index_lines,
    names.TIME_INDEX: log_file_text.time_index_lines,
    names.TRANSACTION_INDEX: log_file_text.transaction_index_lines,
    names.SNAPSHOT: log_file_text.producer_snapshot_lines,
}
TEXTS = (
    checkpoints.REPLICATION_OFFSETS,
    checkpoints.RECOVERY_POINTS,
    checkpoints.START_OFFSETS,
    checkpoints.CLEANER_OFFSETS,
    checkpoints.LEADER_EPOCHS,
    checkpoints.PARTITION_METADATA,
    checkpoints.META_PROPERTIES,
    checkpoints.CLEAN_SHUTDOWN,
)


@click.command("dump-log")
@click.option("--files", required=True, help="Comma-separated files; a folder stands for all its log files.")
@flag("print-data-log", "Print records as well as batches.")
@flag("deep-iteration", "Iterate over records in batches; implied by --print-data-log.")
@flag("offsets-decoder", "Decode records of __consumer_offsets.")
@flag("transaction-log-decoder", "Decode records of __transaction_state.")
@flag("skip-record-metadata", "Print only key and value of records, and no control records.")
@flag("index-sanity-check", "Check index files instead of printing them.")
@click.option(
    "--max-bytes", type=click.IntRange(1), default=2**31 - 1, help="Maximum number of bytes to read from a .log file."
)
@click.option("--max-message-size", type=click.IntRange(1), hidden=True)
def dump_log(**given: Any) -> None:
    """Dump the files of a log directory.

    Prints batches, records, index entries, aborted transactions, producer snapshots and checkpoints, in the format of
    Kafka's tool.
    """
    wanted = _wanted(given)
    for path in _paths(given["files"]):
        click.echo(f"Dumping {path}")
        try:
            for line in _lines(path, wanted, check=given["index_sanity_check"]):
                click.echo(line)
        except CorruptLog as error:
            raise CommandFailed(str(error)) from None


def _wanted(given: dict[str, Any]) -> log_file_text.SegmentFormat:
    chosen = at_most_one(given, ("offsets-decoder", "transaction-log-decoder"))
    decode: log_file_text.Decode | None = None
    if given["print_data_log"] or given["skip_record_metadata"]:
        decode = log_file_text.record_as_text
    if chosen is not None:
        of_groups = chosen == "offsets-decoder"
        decode = log_file_text.internal_record_decoder(
            internal.GROUP_TOPIC if of_groups else internal.TRANSACTION_TOPIC
        )
    return log_file_text.SegmentFormat(decode, not given["skip_record_metadata"], given["max_bytes"])


def _paths(text: str) -> Iterator[Path]:
    for name in text.split(","):
        path = Path(name.strip())
        if path.is_dir():
            yield from (each for each in sorted(path.iterdir()) if each.is_file() and _is_known(each))
        elif not path.exists():
            raise CommandFailed(f"{path}: no such file.")
        elif not _is_known(path):
            raise CommandFailed(
                f"{path}: not a file of a log directory; expected {', '.join((names.LOG, *READERS, *TEXTS))}."
            )
        else:
            yield path


def _is_known(path: Path) -> bool:
    is_numbered = names.offset_of(path.name) is not None and path.suffix in (names.LOG, *READERS)
    return is_numbered or path.name in TEXTS


def _lines(path: Path, wanted: log_file_text.SegmentFormat, *, check: bool) -> Iterator[str]:
    if path.suffix == names.LOG:
        yield from log_file_text.segment_lines(path, wanted)
    elif path.suffix in names.INDEXES and check:
        if not log_file_text.is_sane_index(path):
            raise CorruptLog(f"{path}: the index does not match its segment")
        yield f"{path} passed sanity check."
    elif path.suffix in READERS:
        yield from READERS[path.suffix](path)
    else:
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()
