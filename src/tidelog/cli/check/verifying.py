"""`tidelog check verify`: the verdict on a history."""

from pathlib import Path

import click

from tidelog.cli.check import verdict_output
from tidelog.cli.options import Refused, flag


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@flag("json", "Print the verdict as JSON.")
def verify(file: Path, json: bool) -> None:
    """Judge a history. The exit code is 1 where something is in it that Kafka's promises rule out."""
    from tidelog.check.history.text import NotAHistory, parse
    from tidelog.check.history.verdict import verify as judge

    try:
        with file.open(encoding="utf-8", errors="backslashreplace") as lines:
            history = parse(lines)
    except NotAHistory as refusal:
        raise Refused(f"{file}, {refusal}.") from None
    verdict = judge(history)
    verdict_output.tell(verdict, as_json=json)
    click.get_current_context().exit(0 if verdict.is_good else 1)
