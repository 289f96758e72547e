"""`tidelog lab`: lists the stories of the lab, and runs one on the terminal or as a page."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tidelog.lab.language import Story
    from tidelog.lab.playback import Playback

SAFE = "kip_320"
QUIT = "q"
HINT = "   (any key: next step; q: quit)"


@click.group()
def lab() -> None:
    """Watch replication lose and keep data: stories on real nodes, step by step."""


@lab.command("list")
def list_stories() -> None:
    """List the stories and their knobs."""
    from tidelog.lab.engine import find, names

    for name in names():
        story = find(name)
        click.echo(f"{name}\n    {story.title}\n    from {story.source}")
        for knob in story.knobs.values():
            values = " ".join(f"[{value}]" if value == knob.default else value for value in knob.values)
            click.echo(f"    {knob.name}: {values}")


@lab.command()
@click.argument("story", metavar="NAME|FILE")
@click.option("--truncation", help="Truncation rule: high_watermark, kip_101, kip_279 or kip_320.")
@click.option("--acks", help="Required acknowledgements of producers: 0, 1 or all.")
@click.option("--min-insync-replicas", help="Minimum in-sync replicas for acks=all.")
@click.option("--replicas", help="Number of replicas of the partition.")
@click.option("--unclean/--no-unclean", default=None, help="Whether an out-of-sync replica may become leader.")
@click.option("--knob", "knobs", multiple=True, metavar="NAME=VALUE", help="Other knob of the story; repeatable.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the story to this HTML file.")
@click.option(
    "--logs", type=click.Path(file_okay=False, path_type=Path), help="Folder to keep the brokers' log directories in."
)
@click.option("--step", "by_step", is_flag=True, help="Wait for a key after each step; q quits.")
def run(
    story: str,
    truncation: str | None,
    acks: str | None,
    min_insync_replicas: str | None,
    replicas: str | None,
    unclean: bool | None,
    knobs: tuple[str, ...],
    html: Path | None,
    logs: Path | None,
    by_step: bool,
) -> None:
    """Play the story NAME of the lab, or your own story in FILE.

    `tidelog lab list` shows the knobs of each story; other knobs are an error. If a story has generations of
    truncation, its page shows the chosen one beside the current one. `tidelog audit` and `tidelog dump-log` read the
    folders of --logs.
    """
    from tidelog.lab.engine import export_disks, tell
    from tidelog.lab.language import StoryError

    given = {
        "truncation": truncation,
        "acks": acks,
        "min.insync.replicas": min_insync_replicas,
        "replicas": replicas,
        "unclean": None if unclean is None else str(unclean).lower(),
    }
    wanted = {name: value for name, value in given.items() if value is not None} | dict(map(_pair, knobs))
    try:
        found = _find(story)
        playback = tell(found, wanted, ended=None if logs is None else lambda play: export_disks(play, logs))
        if html is not None:
            _write(found, playback, html)
        else:
            _draw(playback, by_step=by_step and _is_terminal())
    except (StoryError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"expected NAME=VALUE, not {text!r}.", param_hint="--knob")
    return name, value


def _find(story: str) -> "Story":
    from tidelog.lab.engine import SUFFIX, find, open_file

    if story.endswith(SUFFIX) or "/" in story:
        return open_file(story)
    return find(story)


def _write(story: "Story", playback: "Playback", path: Path) -> None:
    """Write the page; an older generation of truncation is shown beside the current one if both have the same steps."""
    from tidelog.lab.engine import tell
    from tidelog.lab.page import write

    playbacks = [playback]
    if playback.knobs.get("truncation", SAFE) != SAFE:
        beside = tell(story, {**playback.knobs, "truncation": SAFE})
        if len(beside.steps) == len(playback.steps):
            playbacks.append(beside)
    write(playbacks, path)
    click.echo(f"{path}: {' '.join(playback.verdict.sentences)}")


def _draw(playback: "Playback", *, by_step: bool) -> None:
    from rich.console import Console

    from tidelog.cli import lab_drawing

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    _print(console, lab_drawing.heading(playback))
    for step in playback.steps:
        _print(console, lab_drawing.step(step))
        if by_step:
            if step.number == 1:
                console.print(HINT, style="dim")
            if click.getchar() == QUIT:
                return
    _print(console, lab_drawing.verdict(playback.verdict))


def _print(console: "Console", lines: "Iterable[Text]") -> None:
    """Print lines; on a terminal a long line is wrapped to its own indentation."""
    from rich.padding import Padding

    for line in lines:
        indent = len(line.plain) - len(line.plain.lstrip())
        if indent and console.is_terminal:
            console.print(Padding(line[indent:], (0, 0, 0, indent)))
        else:
            console.print(line)
