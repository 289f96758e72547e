"""A line for each mutant, and at the end the survivors with what was changed."""

from collections import Counter
from collections.abc import Sequence

import click

from tidelog.cli.simulate.drawn.keeping import Verdict
from tidelog.cli.simulate.drawn.tree import Tree
from tidelog.sim.mutants.drawn.drawing import Site

KINDS = ("test", "story", "seed", "time-out")
"""What may kill a mutant, in the order of the summary."""


def row(tree: Tree, number: int, verdict: Verdict) -> str:
    site, found = verdict.site, verdict.found
    killer = "survived" if found is None else f"{found.by} {found.name}"
    if found is not None and found.by == "seed":
        killer += f" {found.said}"
    return f"{number:>4} {_place(tree, site)} {site.function} ({site.what}) {killer}"


def conclude(tree: Tree, verdicts: Sequence[Verdict]) -> int:
    """Print the survivors and the sum; how many survived that are not known to be equivalent."""
    survivors = [verdict for verdict in verdicts if verdict.found is None]
    for verdict in survivors:
        site = verdict.site
        click.echo(f"survived {_place(tree, site)} {site.function} ({site.what}, nth {site.nth})")
        click.echo(f"-  {verdict.before}\n+  {verdict.after}")
    counts = Counter(verdict.found.by for verdict in verdicts if verdict.found)
    killed = sum(counts[kind] for kind in KINDS)
    click.echo("killed by: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS))
    share = f" ({100 * killed // len(verdicts)} %)" if verdicts else ""
    click.echo(
        f"drawn: killed {killed} of {len(verdicts)}{share}, equivalent {counts['equivalent']}, "
        f"survived {len(survivors)} {'FAILED' if survivors else 'ok'}"
    )
    return len(survivors)


def _place(tree: Tree, site: Site) -> str:
    path = tree.path(site.module)
    return f"{path.relative_to(tree.root or tree.package.parent)}:{site.line}"
