"""`tidelog completion`: the script with which a shell completes commands and options."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    Add it to the shell's start-up file, or evaluate it: eval "$(tidelog completion bash)".
    """
    from click.shell_completion import get_completion_class

    from tidelog.cli.main import tidelog

    found = get_completion_class(shell)
    assert found is not None
    script = found(tidelog, {}, "tidelog", "_TIDELOG_COMPLETE")
    click.echo(script.source_template % script.source_vars())  # `source` would run bash to look at its version
