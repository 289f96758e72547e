"""The picture of one partition, as SVG: a lane for each replica, offsets from left to right, and marks over findings.

A mark has a minimum width; if its finding is narrower than that, a second picture shows the offsets around it.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from tidelog.audit.core import finding
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.report import PartitionView, ReplicaView

WIDTH, LEFT, RIGHT, TOP, LANE, BAR, BOTTOM = 1100, 130, 20, 26, 30, 18, 22
LABEL_WIDTH = 80
"""Minimum width of a bar with its epoch as a label; a bar narrower than LEAST is merged with the next."""
LEAST = 2.0
TICKS = 5
PLAIN_WIDTH = 12
"""Minimum width of a finding in the picture of the whole log; a narrower one gets a second picture."""
AROUND = 8
"""The second picture shows this many times the finding's length to either side."""
LEAST_AROUND = 10
EPOCHS = ("#2471a3", "#117864", "#7d3c98", "#5d6d7e", "#1a5276", "#4a7c1f", "#884ea0", "#34495e")
MANY = "#85929e"

ABSENT = frozenset({finding.GAP, finding.SHORT, finding.BEHIND, finding.BEGINNING, finding.UNREADABLE})
DIFFERENT = frozenset({finding.DIVERGENCE, finding.COMMITTED, finding.LINEAGE, finding.ELECTION, finding.TAIL})

PATTERNS = (
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
    '<pattern id="differs" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="var(--bad)"/><rect width="2" height="6" fill="var(--paper)"/></pattern>'
    '<pattern id="told" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="var(--line)"/><rect width="2" height="6" fill="var(--ink)"/></pattern>'
    "</defs></svg>"
)
WHOLE, THIN = 'x="1" width="14"', 'x="6" width="3"'
LEGEND = (
    (WHOLE, f'fill="{EPOCHS[0]}"', "batches, a colour for each leader epoch"),
    (WHOLE, 'fill="url(#differs)"', "differs, and must not"),
    (WHOLE, 'fill="var(--bad)"', "damaged, or lost"),
    (WHOLE, 'fill="var(--paper)" stroke="var(--bad)" stroke-width="2" stroke-dasharray="3 2"', "missing"),
    (WHOLE, 'fill="url(#told)"', "not broken: uncommitted, behind, unread"),
    (THIN, 'fill="var(--ink)"', "high watermark"),
)


def legend() -> str:
    entries = "".join(
        f'<span><svg viewBox="0 0 16 14" class="swatch"><rect y="1" height="12" {area} {style}/></svg>{text}</span>'
        for area, style, text in LEGEND
    )
    return f'<p class="key">{entries}<span><b class="bad">▼</b> something is broken here</span></p>'


class Window(NamedTuple):
    """The offsets [low, high) of a picture."""

    low: int
    high: int

    def x(self, offset: int) -> float:
        inside = min(max(offset, self.low), self.high)
        return LEFT + (inside - self.low) * (WIDTH - LEFT - RIGHT) / (self.high - self.low)

    def shows(self, start: int, end: int) -> bool:
        return start < self.high and max(end, start + 1) > self.low

    def width(self, start: int, end: int) -> float:
        return self.x(end) - self.x(start)


def pictures(view: PartitionView, found: Sequence[Finding]) -> str:
    """The picture of the whole log and, if the first broken range is too narrow in it, one of the offsets around
    that."""
    placed = [each for each in found if each.start >= 0]
    whole = _whole(view, placed)
    drawn = _picture(view, placed, whole, f"replicas of {view.name} by offset")
    first = _first(view, placed)
    if first is None or whole.width(first.start, max(first.end, first.start + 1)) >= PLAIN_WIDTH:
        return drawn
    near = _near(first, whole)
    caption = f'<p class="near">From near, around offset {first.start:,}:</p>'
    return f"{drawn}{caption}{_picture(view, placed, near, f'{view.name} around offset {first.start}')}"


def _whole(view: PartitionView, placed: Sequence[Finding]) -> Window:
    starts = [each.start for each in view.replicas if each.start >= 0] + [each.start for each in placed]
    ends = [bound for each in view.replicas for bound in (each.end, each.high_watermark)]
    low = min(starts, default=0)
    return Window(low, max([low + 1, *ends, *(max(each.end, each.start + 1) for each in placed)]))


def _near(first: Finding, whole: Window) -> Window:
    length = max(first.end - first.start, 1)
    margin = max(AROUND * length, LEAST_AROUND)
    low = max(whole.low, first.start - margin)
    return Window(low, max(low + 1, min(whole.high, max(first.end, first.start + 1) + margin)))


def _first(view: PartitionView, placed: Sequence[Finding]) -> Finding | None:
    """The first divergence, or else the first broken range."""
    broken = [each for each in placed if each.is_broken]
    diverged = [each for each in broken if each.start == view.first_divergence and each.kind in DIFFERENT]
    return min(diverged or broken, key=lambda each: each.start, default=None)


def _picture(view: PartitionView, placed: Sequence[Finding], window: Window, label: str) -> str:
    shown = [each for each in placed if window.shows(each.start, each.end)]
    parts = [part for lane, each in enumerate(view.replicas) for part in _lane(view, each, shown, lane, window)]
    parts += _marks(view, shown, window)
    parts += _axis(TOP + len(view.replicas) * LANE, window)
    height = TOP + len(view.replicas) * LANE + BOTTOM
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _axis(bottom: int, window: Window) -> Iterator[str]:
    length = window.high - window.low
    for tick in range(TICKS + 1):
        offset = window.low + length * tick // TICKS
        x = window.x(offset)
        anchor = "start" if tick == 0 else "end" if tick == TICKS else "middle"
        word = "offset " if tick == 0 else ""
        yield f'<rect x="{x:.1f}" y="{bottom}" width="1" height="4" fill="var(--ink)"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="{anchor}">{word}{offset:,}</text>'


def _marks(view: PartitionView, shown: Sequence[Finding], window: Window) -> Iterator[str]:
    """A triangle over each broken range, and a line through all lanes at the first divergence."""
    broken = [(round(window.x(each.start)), each.sentence) for each in shown if each.is_broken]
    for mark in sorted({mark for mark, _ in broken}):
        sentences = "; ".join(sentence for here, sentence in broken if here == mark)
        points = f"{mark - 5},{TOP - 11} {mark + 5},{TOP - 11} {mark},{TOP - 2}"
        yield f'<polygon points="{points}" fill="var(--bad)"><title>{escape(sentences)}</title></polygon>'
    first = view.first_divergence
    if first >= 0 and window.shows(first, first + 1):
        x, bottom = window.x(first), TOP + len(view.replicas) * LANE
        side, shift = ("end", -9) if x > WIDTH / 2 else ("start", 9)
        yield f'<rect x="{x - 0.5:.1f}" y="{TOP - 2}" width="1" height="{bottom - TOP + 2}" fill="var(--bad)"/>'
        yield (
            f'<text class="first" x="{x + shift:.1f}" y="{TOP - 4}" text-anchor="{side}">'
            f"first divergence: offset {first:,}</text>"
        )


def _lane(view: PartitionView, each: ReplicaView, shown: Sequence[Finding], lane: int, window: Window) -> Iterator[str]:
    top = TOP + lane * LANE + (LANE - BAR) / 2
    label = f"broker {each.broker}{', leads' if each.broker == view.leader else ''}"
    yield f'<text x="0" y="{top + BAR - 5:.0f}">{label}</text>'
    yield from _epochs(each, top, window)
    for one in sorted(shown, key=lambda each: (each.is_broken, each.kind not in ABSENT)):
        if each.broker in one.brokers or not one.brokers:
            yield _found(one, top, window, is_odd=one.odd in (-1, each.broker))
    if window.low <= each.high_watermark <= window.high:
        x = window.x(each.high_watermark)
        yield _rect(x - 1.5, top - 5, 3, BAR + 10, 'fill="var(--ink)"', f"high watermark {each.high_watermark:,}")


def _epochs(each: ReplicaView, top: float, window: Window) -> Iterator[str]:
    """A bar for each epoch; epochs that are too narrow share one."""
    bounds = [*(start for _, start in each.epochs[1:]), each.end]
    starts = [each.start, *bounds]
    held: tuple[int, int] | None = None  # the first epoch of a shared bar, and where that begins
    for number, ((epoch, _), start, end) in enumerate(zip(each.epochs, starts, bounds, strict=False)):
        if not window.shows(start, end):
            held = None
            continue
        first, low = held or (epoch, start)
        is_last = number + 1 == len(each.epochs)
        if window.width(low, end) < LEAST and not is_last:
            held = (first, low)
            continue
        held = None
        yield from _bar(first, epoch, low, end, top, window)


def _bar(first: int, last: int, start: int, end: int, top: float, window: Window) -> Iterator[str]:
    named = f"epoch {last}" if first == last else f"epochs {first} to {last}"
    colour = EPOCHS[last % len(EPOCHS)] if first == last else MANY
    x, width = window.x(start), max(window.width(start, end), LEAST / 2)
    yield _rect(x, top, width, BAR, f'fill="{colour}"', f"{named}: offsets {start:,} to {end - 1:,}")
    if width >= LABEL_WIDTH:
        yield f'<text class="epoch" x="{x + 6:.1f}" y="{top + BAR - 5:.0f}">{named}</text>'


def _found(one: Finding, top: float, window: Window, *, is_odd: bool) -> str:
    end = max(one.end, one.start + 1)
    x, width = window.x(one.start), window.width(one.start, end)
    if width < 3:
        x, width = x - (3 - width) / 2, 3.0
    title = f"{one.kind}: {one.sentence}"
    if not is_odd:
        style = 'fill="none" stroke="var(--bad)" stroke-width="1.5"'
    elif one.kind in ABSENT and one.is_broken:
        style = 'fill="var(--paper)" stroke="var(--bad)" stroke-width="2" stroke-dasharray="4 3"'
    elif not one.is_broken:
        style = 'fill="url(#told)"'
    else:
        style = 'fill="url(#differs)"' if one.kind in DIFFERENT else 'fill="var(--bad)"'
    return _rect(x, top - 1, width, BAR + 2, style, title)


def _rect(x: float, y: float, width: float, height: float, style: str, title: str) -> str:
    area = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect {area} {style}><title>{escape(title)}</title></rect>"
