"""The report as one page that needs nothing else: the verdict, what was found, and a picture of each partition."""

from collections.abc import Iterator
from html import escape
from string import Template

from tidelog.audit.finding import GAP, KINDS, Finding
from tidelog.audit.report import PartitionView, ReplicaView, Report
from tidelog.cli.audit.drawing import counted, epochs, size

WIDTH, LEFT, RIGHT, LANE, BAR = 1100, 90, 16, 30, 18
EPOCHS = ("#2471a3", "#117864", "#7d3c98", "#b9770e", "#5d6d7e", "#1f618d", "#6e2c00", "#145a32")

PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Replica audit</title><link rel="icon" href="data:,"><style>
:root { color-scheme: light dark; --ink: #1c2833; --paper: #fff; --line: #d5d8dc; --ok: #1e8449; --bad: #c0392b;
  --hw: #b35900; }
@media (prefers-color-scheme: dark) { :root { --ink: #ecf0f1; --paper: #17202a; --line: #424949; --ok: #58d68d;
  --bad: #ec7063; --hw: #ffb066; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: ${width}px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
.good { color: var(--ok); } .bad { color: var(--bad); }
table { border-collapse: collapse; font-size: .92em; } td, th { text-align: left; padding: .15rem .9rem .15rem 0;
  vertical-align: top; border-bottom: 1px solid var(--line); } td.number { text-align: right;
  font-variant-numeric: tabular-nums; } svg { width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } .scroll { overflow-x: auto; }
.key i { display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 1em; }
</style></head><body>
<h1>Replica audit: <span class="$class">$outcome</span></h1>
<p>$summary</p>
<h2>Found</h2>
$findings
<p class="key"><i style="background:#2471a3"></i>batches, a colour for each leader epoch
<i style="background:var(--hw)"></i>high watermark <i style="background:var(--bad)"></i>broken</p>
$partitions
</body></html>
""")


def page(report: Report) -> str:
    broken = sum(each.is_broken for each in report.findings)
    return PAGE.substitute(
        width=WIDTH,
        outcome="all replicas agree" if report.is_good else f"{broken} broken",
        **{"class": "good" if report.is_good else "bad"},
        summary=f"{counted(report)}, {report.seconds:.1f} s.",
        findings=_findings(report.findings),
        partitions="".join(_partition(report, each) for each in report.partitions),
    )


def _findings(findings: list[Finding]) -> str:
    if not findings:
        return "<p>Nothing.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("what", "rule", "where", "brokers", ""))
    return f"<table><tr>{head}</tr>{''.join(map(_finding, findings))}</table>"


def _finding(each: Finding) -> str:
    kind = KINDS[each.kind]
    mark = f'<b class="bad">{each.kind}</b>' if each.is_broken else each.kind
    brokers = ", ".join(map(str, each.brokers))
    cells = (mark, kind.invariant, escape(each.place), brokers, escape(each.sentence))
    return f'<tr title="{escape(kind.meaning)}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _partition(report: Report, view: PartitionView) -> str:
    leads = f"led by broker {view.leader} in epoch {view.leader_epoch}" if view.leader >= 0 else ""
    about = [leads, "compacted" if view.is_compacted else ""]
    about += [f"{view.acknowledged} acknowledged records looked for"] if view.acknowledged else []
    rows = "".join(_row(each) for each in view.replicas)
    heads = ("broker", "from", "start", "high watermark", "end", "batches", "size", "segments", "epochs")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return (
        f"<h2>{escape(view.name)}</h2><p>{', '.join(filter(None, about))}</p>"
        f'<div class="scroll">{_picture(report, view)}</div><table><tr>{head}</tr>{rows}</table>'
    )


def _row(each: ReplicaView) -> str:
    numbers = (each.start, each.high_watermark, each.end)
    told = ["" if number < 0 else str(number) for number in numbers]
    told += [f"{each.batches:,}", size(each.bytes), str(each.segments or "")]
    cells = "".join(f'<td class="number">{cell}</td>' for cell in told)
    return f"<tr><td>{each.broker}</td><td>{each.source}</td>{cells}<td>{epochs(each)}</td></tr>"


# The picture: a lane for each replica, offsets from left to right.


def _picture(report: Report, view: PartitionView) -> str:
    found = report.of(view)
    ends = [each.end for each in view.replicas] + [each.high_watermark for each in view.replicas]
    ends += [each.end for each in found]
    low = min((each.start for each in view.replicas if each.start >= 0), default=0)
    low = min([low, *(each.start for each in found if each.start >= 0)])
    high = max([low + 1, *ends])
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    parts = [part for place, each in enumerate(view.replicas) for part in _lane(each, found, place, low, scale)]
    bottom = len(view.replicas) * LANE
    parts += [
        f'<text x="{LEFT}" y="{bottom + 14}">offset {low}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{bottom + 14}" text-anchor="end">{high}</text>',
    ]
    label = f"replicas of {escape(view.name)} by offset"
    return f'<svg viewBox="0 0 {WIDTH} {bottom + 20}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _lane(each: ReplicaView, found: list[Finding], place: int, low: int, scale: float) -> Iterator[str]:
    top = place * LANE + (LANE - BAR) / 2
    yield f'<text x="0" y="{top + BAR - 5}">broker {each.broker}</text>'
    bounds = [*(start for _, start in each.epochs[1:]), each.end]
    starts = [each.start, *bounds]
    for (epoch, _), start, end in zip(each.epochs, starts, bounds, strict=False):
        yield _bar(
            start,
            end,
            low,
            scale,
            top,
            BAR,
            EPOCHS[epoch % len(EPOCHS)],
            f"epoch {epoch}: offsets {start} to {end - 1}",
        )
    for one in found:
        if one.kind == GAP and each.broker in one.brokers:
            yield _bar(one.start, one.end, low, scale, top, BAR, "var(--paper)", "")
        if one.start >= 0 and (each.broker in one.brokers or not one.brokers):
            colour = "var(--bad)" if one.is_broken else "var(--line)"
            end = max(one.end, one.start + 1)
            yield _bar(
                one.start, end, low, scale, top - 4, BAR + 8, colour, f"{one.kind}: {one.sentence}", opacity=0.75
            )
    if each.high_watermark >= 0:
        x = LEFT + (each.high_watermark - low) * scale
        title = f"<title>high watermark {each.high_watermark}</title>"
        yield f'<rect x="{x - 1:.1f}" y="{top - 5}" width="2" height="{BAR + 10}" fill="var(--hw)">{title}</rect>'


def _bar(
    start: int, end: int, low: int, scale: float, top: float, height: float, colour: str, title: str, opacity: float = 1
) -> str:
    width = max(1.5, (end - start) * scale)
    return (
        f'<rect x="{LEFT + (start - low) * scale:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{colour}" opacity="{opacity}"><title>{escape(title)}</title></rect>'
    )
