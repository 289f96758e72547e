"""The audit report as one self-contained HTML page: the verdict, the findings, and a picture of each partition.

Broken partitions come first and are unfolded; the others are folded, so that a page with hundreds remains readable.
"""

from collections.abc import Sequence
from html import escape
from string import Template

from tidelog.audit.core.finding import KINDS, Finding
from tidelog.audit.core.report import PartitionView, ReplicaView, Report
from tidelog.cli.audit import partition_picture
from tidelog.cli.audit.audit_text import epochs, read_summary, size

MAX_OPEN_FINDINGS = 40
"""The number of findings that are shown; the rest is folded."""

PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Replica audit: $outcome</title><link rel="icon" href="data:,"><style>
:root { color-scheme: light dark; --ink: #1c2833; --paper: #fff; --line: #cfd4d9; --ok: #1e8449; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --ink: #ecf0f1; --paper: #17202a; --line: #4d5656; --ok: #58d68d;
  --bad: #ec7063; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: ${width}px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; } p { margin: .4rem 0; }
.good { color: var(--ok); } .bad { color: var(--bad); } a { color: inherit; }
table { border-collapse: collapse; font-size: .92em; } td, th { text-align: left; padding: .15rem .9rem .15rem 0;
  vertical-align: top; border-bottom: 1px solid var(--line); } td.number, th.number { text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; } td:last-child { overflow-wrap: anywhere; }
details > svg, details > div > svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } svg text.epoch { fill: #fff; }
svg text.first { fill: var(--bad); font-weight: 600; font-size: 12px; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 640px; }
.key { font-size: .87em; } .key span { margin-right: 1.2em; white-space: nowrap; }
.swatch { width: 16px; height: 14px; vertical-align: -2px; margin-right: .35em; display: inline; }
details > p { scroll-margin-top: 3.5rem; } .near { margin: .3rem 0 0; font-size: .9em; }
summary { cursor: pointer; font-weight: 600; margin: 1.1rem 0 .3rem; }
.tiles { display: flex; flex-wrap: wrap; gap: 4px; margin: .6rem 0; } .tiles a { text-decoration: none;
  border: 1px solid var(--line); border-left: 5px solid var(--ok); padding: 0 .45em; font-size: .85em; }
.tiles a.bad { border-color: var(--bad); font-weight: 600; }
</style></head><body>
<h1>Replica audit: <span class="$class">$outcome</span></h1>
<p>$summary</p>$first
<h2>Found</h2>
$findings
<h2>Partitions</h2>
$tiles
$patterns$legend
$partitions
</body></html>
""")


def page(report: Report) -> str:
    broken = sum(each.is_broken for each in report.findings)
    views = [(view, report.of(view)) for view in report.partitions]
    views.sort(key=lambda each: not _is_broken(each[1]))
    return PAGE.substitute(
        width=partition_picture.WIDTH,
        outcome="all replicas agree" if report.is_good else f"{broken} broken",
        **{"class": "good" if report.is_good else "bad"},
        summary=f"{read_summary(report)}, {report.seconds:.1f} s.",
        first=_first(report),
        findings=_findings(report.findings, {view.name for view in report.partitions}),
        tiles=_tiles(views) if len(views) > 1 else "",
        patterns=partition_picture.PATTERNS,
        legend=partition_picture.legend(),
        partitions="".join(_partition(view, found) for view, found in views),
    )


def _is_broken(found: Sequence[Finding]) -> bool:
    return any(each.is_broken for each in found)


def _first(report: Report) -> str:
    """The first divergence of each partition that has one, which is where to look first."""
    links = [
        f'<a href="#{escape(view.name)}">{escape(view.name)}</a> at offset {view.first_divergence:,}'
        for view in report.partitions
        if view.first_divergence >= 0
    ]
    more = f" and {len(links) - 10} more partitions" if len(links) > 10 else ""
    return f'<p class="bad">Replicas diverge first in {", ".join(links[:10])}{more}.</p>' if links else ""


def _tiles(views: Sequence[tuple[PartitionView, list[Finding]]]) -> str:
    """A tile for each partition."""
    tiles = "".join(
        f'<a href="#{escape(view.name)}"{" class=bad" if _is_broken(found) else ""}>{escape(view.name)}</a>'
        for view, found in views
    )
    return f'<div class="tiles">{tiles}</div>'


def _findings(findings: Sequence[Finding], drawn: set[str]) -> str:
    if not findings:
        return "<p>Nothing.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("what", "rule", "where", "brokers", ""))
    rows = [_finding(each, drawn) for each in findings]
    table = f"<table><tr>{head}</tr>{''.join(rows[:MAX_OPEN_FINDINGS])}</table>"
    if len(rows) <= MAX_OPEN_FINDINGS:
        return table
    rest = f"<table><tr>{head}</tr>{''.join(rows[MAX_OPEN_FINDINGS:])}</table>"
    return f"{table}<details><summary>{len(rows) - MAX_OPEN_FINDINGS} more</summary>{rest}</details>"


def _finding(each: Finding, drawn: set[str]) -> str:
    kind = KINDS[each.kind]
    mark = f'<b class="bad">{each.kind}</b>' if each.is_broken else each.kind
    brokers = ", ".join(map(str, each.brokers))
    partition = escape(each.location)
    where = f'<a href="#{partition}">{partition}</a>' if each.location in drawn else partition
    cells = (mark, kind.invariant, where, brokers, escape(each.sentence))
    return f'<tr title="{escape(kind.meaning)}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _partition(view: PartitionView, found: Sequence[Finding]) -> str:
    broken = sum(each.is_broken for each in found)
    leads = f"led by broker {view.leader} in epoch {view.leader_epoch}" if view.leader >= 0 else ""
    about = [leads, "compacted: compared by the last value of each key" if view.is_compacted else ""]
    about += [f"{view.acknowledged:,} acknowledged records looked for"] if view.acknowledged else []
    heads = ("broker", "from", "start", "high watermark", "end", "batches", "size", "segments", "epochs")
    numbers = heads[2:8]
    head = "".join(f"<th{' class=number' if name in numbers else ''}>{name}</th>" for name in heads)
    mark = f'<span class="bad">{broken} broken</span>' if broken else '<span class="good">ok</span>'
    return (
        f"<details{' open' if broken else ''}><summary>{escape(view.name)}: {mark}</summary>"
        f'<p id="{escape(view.name)}">{", ".join(filter(None, about))}</p>'
        f'<div class="scroll">{partition_picture.pictures(view, found)}</div>'
        f'<div class="scroll"><table><tr>{head}</tr>{"".join(map(_row, view.replicas))}</table></div></details>'
    )


def _row(each: ReplicaView) -> str:
    numbers = (each.start, each.high_watermark, each.end)
    texts = ["" if number < 0 else f"{number:,}" for number in numbers]
    texts += [f"{each.batches:,}", size(each.bytes), str(each.segments or "")]
    cells = "".join(f'<td class="number">{cell}</td>' for cell in texts)
    return f"<tr><td>{each.broker}</td><td>{each.source}</td>{cells}<td>{epochs(each)}</td></tr>"
