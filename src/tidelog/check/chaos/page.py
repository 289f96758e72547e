"""The report as one self-contained page: the verdict, the faults above calls and latencies, the evidence."""

from collections.abc import Iterator
from html import escape
from string import Template

from tidelog.check.chaos.report import FaultRecord, Report
from tidelog.check.chaos.schedule import KINDS as FAULTS
from tidelog.check.history.verdict import KINDS

WIDTH, LEFT, RIGHT, LANE, CALLS, LATENCY, GAP = 1100, 104, 30, 22, 120, 90, 26
MOST_EVIDENCE = 10
_COLOURS = (
    "#c0392b",
    "#8e44ad",
    "#2471a3",
    "#641e16",
    "#b9770e",
    "#117864",
    "#1e8449",
    "#5d6d7e",
    "#2c3e50",
    "#d4ac0d",
)

PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Chaos, seed $seed</title><style>
:root { color-scheme: light dark; --ink: #1c2833; --paper: #fff; --line: #d5d8dc; --ok: #1e8449; --bad: #c0392b;
  --calls: #2e86c1; --polls: #aed6f1; --late: #b9770e; }
@media (prefers-color-scheme: dark) { :root { --ink: #ecf0f1; --paper: #17202a; --line: #424949; --ok: #58d68d;
  --bad: #ec7063; --polls: #1b4f72; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: ${width}px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
.good { color: var(--ok); } .bad { color: var(--bad); }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2rem .9rem .2rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); } td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.key span { display: inline-block; margin-right: 1.1rem; } .key i { display: inline-block; width: .8em; height: .8em;
  margin-right: .35em; }
code { font-size: .92em; } .scroll { overflow-x: auto; }
</style></head><body>
<h1>Chaos, seed $seed: <span class="$class">$outcome</span></h1>
<p>$summary</p>
$problems
<h2>What was done, and how the calls fared</h2>
<div class="scroll">$picture</div>
<p class="key">$key</p>
<h2>Verdict</h2>
$anomalies
$late
<h2>Figures</h2>
<table>$figures</table>
<h2>Again</h2>
<p><code>tidelog chaos --brokers $brokers --seconds $seconds --seed $seed</code></p>
</body></html>
""")


def page(report: Report) -> str:
    assert report.verdict is not None
    good = report.is_good
    return PAGE.substitute(
        seed=report.seed,
        width=WIDTH,
        outcome="nothing is broken" if good else "broken",
        **{"class": "good" if good else "bad"},
        summary=escape(_summary(report)),
        problems="".join(f'<p class="bad">{escape(problem)}</p>' for problem in report.problems),
        picture=_picture(report),
        key=_key(report),
        anomalies=_anomalies(report),
        late=_late(report),
        figures="".join(_row(name, value) for name, value in report.verdict.figures.items() if name != "calls"),
        brokers=report.brokers,
        seconds=f"{report.seconds:g}",
    )


def _summary(report: Report) -> str:
    assert report.verdict is not None
    figures = report.verdict.figures
    return (
        f"{report.brokers} brokers, {report.seconds:g} s, {len(report.faults)} faults. "
        f"{figures['values_certain']} values certain, {figures['values_indeterminate']} without an answer, "
        f"{figures['values_read']} read. For at most {report.longest_silence_s:g} s nothing was acknowledged."
    )


def _row(name: str, value: object) -> str:
    return f'<tr><td>{escape(name.replace("_", " "))}</td><td class="number">{escape(str(value))}</td></tr>'


def _anomalies(report: Report) -> str:
    assert report.verdict is not None
    if not report.verdict.anomalies:
        return "<p>No anomaly of any kind.</p>"
    rows, evidence = [], []
    for kind, found in report.verdict.anomalies.items():
        allowed = KINDS[kind].is_allowed
        mark = "allowed" if allowed else '<b class="bad">broken</b>'
        rows.append(
            f"<tr><td>{kind}</td><td class=number>{len(found)}</td><td>{mark}</td><td>{KINDS[kind].meaning}</td></tr>"
        )
        if not allowed:
            texts = [anomaly.text(report.verdict.header) for anomaly in found[:MOST_EVIDENCE]]
            evidence += [f"<li><b>{kind}</b> {escape(text)}</li>" for text in texts]
    return f"<table>{''.join(rows)}</table><ul>{''.join(evidence)}</ul>"


def _late(report: Report) -> str:
    if not report.late:
        return ""
    rows = "".join(
        f'<tr><td>{escape(api)}</td><td class="number">{count}</td><td>{escape(answer)}</td></tr>'
        for (api, answer), count in sorted(report.late_counts.items())
    )
    return (
        "<h2>Late requests</h2><p>They arrived after their sender had closed the connection.</p>"
        f"<table><tr><th>request</th><th>how many</th><th>answer</th></tr>{rows}</table>"
    )


def _key(report: Report) -> str:
    kinds = sorted({fault.kind for fault in report.faults}, key=list(FAULTS).index)
    marks = [f'<span><i style="background:{_colour(kind)}"></i>{kind}: {escape(FAULTS[kind])}</span>' for kind in kinds]
    skipped = [f"<span>{kind} was skipped: {escape(why)}</span>" for kind, why in report.skipped.items()]
    calls = "".join(
        f'<span><i style="background:var({colour})"></i>{what}</span>'
        for colour, what in (
            ("--calls", "sends answered"),
            ("--polls", "polls answered"),
            ("--bad", "without an answer"),
        )
    )
    return "".join([calls, "<br>", *marks, *skipped])


def _colour(kind: str) -> str:
    return _COLOURS[list(FAULTS).index(kind)]


# The picture: a lane per broker, then the calls of each second, then the latency of its sends.


def _picture(report: Report) -> str:
    seconds = max(len(report.timeline), 1)
    scale = (WIDTH - LEFT - RIGHT) / seconds
    lanes = report.brokers * LANE
    parts = [
        *_lanes(report, scale),
        *_calls(report, scale, lanes + GAP),
        *_latencies(report, scale, lanes + CALLS + 2 * GAP),
        *_axis(seconds, scale, lanes + CALLS + LATENCY + 2 * GAP),
    ]
    height = lanes + CALLS + LATENCY + 3 * GAP
    label = "faults over calls and latency"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _lanes(report: Report, scale: float) -> Iterator[str]:
    for broker in range(report.brokers):
        middle = broker * LANE + LANE / 2
        yield f'<text x="0" y="{middle + 4}">broker {broker}</text>'
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}" stroke="var(--line)"/>'
    for fault in report.faults:
        for broker in fault.brokers:
            yield _bar(fault, broker, scale, len(report.timeline))


def _bar(fault: FaultRecord, broker: int, scale: float, seconds: int) -> str:
    ended = seconds if fault.ended_s is None else fault.ended_s
    title = f"{fault.kind} of {', '.join(map(str, fault.brokers))}, {fault.begun_s:.1f} s to {ended:.1f} s"
    width = max(2.0, (ended - fault.begun_s) * scale)
    return (
        f'<rect x="{LEFT + fault.begun_s * scale:.1f}" y="{broker * LANE + 4}" width="{width:.1f}" height="{LANE - 8}" '
        f'fill="{_colour(fault.kind)}"><title>{title}</title></rect>'
    )


def _calls(report: Report, scale: float, top: float) -> Iterator[str]:
    most = max((second.sends + second.polls + second.without_answer for second in report.timeline), default=1) or 1
    yield f'<text x="0" y="{top + 10}">calls/s</text><text x="0" y="{top + 24}">up to {most}</text>'
    for number, second in enumerate(report.timeline):
        x, bottom = LEFT + number * scale, top + CALLS
        title = (
            f"second {number}: {second.sends} sends, {second.polls} polls, {second.without_answer} without an answer"
        )
        stack = ((second.sends, "--calls"), (second.polls, "--polls"), (second.without_answer, "--bad"))
        for count, colour in stack:
            height = count / most * CALLS
            bottom -= height
            if count:
                yield _block(x, bottom, scale, height, colour, title)


def _latencies(report: Report, scale: float, top: float) -> Iterator[str]:
    slowest = max((second.send_ms_max or 0 for second in report.timeline), default=0) or 1
    yield f'<text x="0" y="{top + 10}">slowest send</text><text x="0" y="{top + 24}">up to {slowest:.0f} ms</text>'
    for number, second in enumerate(report.timeline):
        if second.send_ms_max is not None:
            height = max(1.0, second.send_ms_max / slowest * LATENCY)
            title = f"second {number}: median {second.send_ms_p50} ms, slowest {second.send_ms_max} ms"
            yield _block(LEFT + number * scale, top + LATENCY - height, scale, height, "--late", title)


def _block(x: float, y: float, scale: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.6, scale - 0.4):.1f}" height="{height:.1f}" '
        f'fill="var({colour})"><title>{title}</title></rect>'
    )


def _axis(seconds: int, scale: float, top: float) -> Iterator[str]:
    step = next(step for step in (5, 10, 20, 60, 300, 600, 3600) if seconds / step <= 20 or step == 3600)
    for second in range(0, seconds + 1, step):
        x = LEFT + second * scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{top}" stroke="var(--line)" stroke-dasharray="2 4"/>'
        yield f'<text x="{x:.1f}" y="{top + 16}">{second} s</text>'
