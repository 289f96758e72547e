"""`tidelog lab list` and `tidelog lab run`."""

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
HINT = "   (any key: the next step; q: the end)"


@click.group()
def lab() -> None:
    """Watch replication lose and keep data: stories on real brokers with real logs, told step by step."""


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
@click.option("--truncation", help="How replicas agree after a leader change: one of Kafka's four generations.")
@click.option("--acks", help="What producers wait for: 0, 1 or all.")
@click.option("--min-insync-replicas", help="How many must be in sync for acks=all.")
@click.option("--replicas", help="How many replicas the partition has.")
@click.option("--unclean/--no-unclean", default=None, help="Whether a replica that is behind may lead.")
@click.option("--knob", "knobs", multiple=True, metavar="NAME=VALUE", help="Any other knob of the story.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the story as a page.")
@click.option("--logs", type=click.Path(file_okay=False, path_type=Path), help="Keep the brokers' log folders here.")
@click.option("--step", "by_step", is_flag=True, help="Wait for a key after each step; q ends it.")
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
    """Tell a story of the lab by its NAME, or your own from a FILE.

    Knobs that the story does not have are refused; `tidelog lab list` shows which it has. A page of a story with
    generations of truncation shows the chosen one and the present one side by side. The log folders at the end are for
    `tidelog audit` and `tidelog dump-log`.
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
        telling = tell(found, wanted, ended=None if logs is None else lambda play: export_disks(play, logs))
        if html is not None:
            _write(found, telling, html)
        else:
            _draw(telling, by_step=by_step and _is_terminal())
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


def _write(story: "Story", telling: "Playback", path: Path) -> None:
    """The page; beside an older generation of truncation the present one, on the same steps."""
    from tidelog.lab.engine import tell
    from tidelog.lab.page import write

    playbacks = [telling]
    if telling.knobs.get("truncation", SAFE) != SAFE:
        beside = tell(story, {**telling.knobs, "truncation": SAFE})
        if len(beside.steps) == len(telling.steps):
            playbacks.append(beside)
    write(playbacks, path)
    click.echo(f"{path}: {' '.join(telling.verdict.sentences)}")


def _draw(telling: "Playback", *, by_step: bool) -> None:
    from rich.console import Console

    from tidelog.cli import lab_drawing

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    _print(console, lab_drawing.heading(telling))
    for step in telling.steps:
        _print(console, lab_drawing.step(step))
        if by_step:
            if step.number == 1:
                console.print(HINT, style="dim")
            if click.getchar() == QUIT:
                return
    _print(console, lab_drawing.verdict(telling.verdict))


def _print(console: "Console", lines: "Iterable[Text]") -> None:
    """On a terminal a long line goes on below its own beginning."""
    from rich.padding import Padding

    for line in lines:
        indent = len(line.plain) - len(line.plain.lstrip())
        if indent and console.is_terminal:
            console.print(Padding(line[indent:], (0, 0, 0, indent)))
        else:
            console.print(line)
