"""`tidelog pipeline list`."""

from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import flag

if TYPE_CHECKING:
    from tidelog.spark.pipelines.plan import Pipeline


@click.command("list")
@flag("json", "Print JSON.")
def listing(json: bool) -> None:
    """Name the pipelines, and the options that --option sets."""
    from tidelog.cli.pipeline.needs import pipelines

    found = pipelines()
    if json:
        from json import dumps

        click.echo(dumps({name: _as_json(each) for name, each in found.items()}, indent=2))
        return
    for name, each in found.items():
        click.echo(f"{name}: {each.sentence}")
        for option, (default, sentence) in each.options.items():
            given = "needed" if default is None else f"default: {default}" if default else "may be left out"
            click.echo(f"  {option} ({given}): {sentence}")


def _as_json(pipeline: "Pipeline") -> dict[str, Any]:
    options = {name: {"default": default, "sentence": text} for name, (default, text) in pipeline.options.items()}
    return {"sentence": pipeline.sentence, "options": options}
