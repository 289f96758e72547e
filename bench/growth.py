"""Row 9 as a table by number of partitions, and as a plot."""

from bench.measure import Measure

COLOURS = {"Tidelog": "#0b7285", "Kafka": "#c92a2a"}
WIDTH, HEIGHT, MARGIN, GAP = 330, 220, 52, 36


def table(measures: list[Measure]) -> list[str]:
    """A table per figure: partitions across, sides down. Empty without measures."""
    if not measures:
        return []
    sizes, figures = _by_figure(measures)
    lines = [
        "| three brokers, replication 3 | side | " + " | ".join(f"{size:,}" for size in sizes) + " |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for what, found in figures.items():
        for side in COLOURS:
            cells = " | ".join(f"{found[size].median(side):.3g}" if size in found else "-" for size in sizes)
            lines.append(f"| {what} | {side} | {cells} |")
    return ["## Growth with the number of partitions", "\n".join(lines), "![Growth](growth.svg)"]


def _by_figure(measures: list[Measure]) -> tuple[list[int], dict[str, dict[int, Measure]]]:
    figures: dict[str, dict[int, Measure]] = {}
    for measure in measures:
        size, _, what = measure.what.partition(" partitions: ")
        figures.setdefault(f"{what}, {measure.unit}", {})[int(size)] = measure
    return sorted({size for found in figures.values() for size in found}), figures


def plot(measures: list[Measure]) -> str:
    """An SVG with one small plot per figure; the axis of partitions is evenly spaced by size."""
    sizes, figures = _by_figure(measures)
    panels = "".join(
        f'<g transform="translate({(number % 2) * (WIDTH + GAP)},{(number // 2) * (HEIGHT + GAP)})">'
        f"{_panel(what, sizes, found)}</g>"
        for number, (what, found) in enumerate(figures.items())
    )
    rows = -(-len(figures) // 2)
    size = f'width="{2 * WIDTH + GAP}" height="{max(1, rows) * (HEIGHT + GAP)}"'
    style = 'font-family="sans-serif" font-size="11"'
    page = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{page}{panels}</svg>\n'


def _panel(what: str, sizes: list[int], found: dict[int, Measure]) -> str:
    top = max(measure.median(side) for measure in found.values() for side in COLOURS) or 1.0
    parts = [f'<text x="{MARGIN}" y="20" font-weight="bold">{what}</text>']
    for number, size in enumerate(sizes):
        parts.append(f'<text x="{_x(number, sizes):.0f}" y="{HEIGHT - 8}" text-anchor="middle">{size:,}</text>')
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - 10}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dee2e6"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{share * top:.3g}</text>')
    for order, (side, colour) in enumerate(COLOURS.items()):
        points = [
            (_x(number, sizes), _y(found[size].median(side) / top))
            for number, size in enumerate(sizes)
            if size in found
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{MARGIN + 8}" y="{44 + 14 * order}" fill="{colour}">{side}</text>')
    return "".join(parts)


def _x(number: int, sizes: list[int]) -> float:
    return MARGIN + 16 + number * (WIDTH - MARGIN - 40) / max(1, len(sizes) - 1)


def _y(share: float) -> float:
    return HEIGHT - 28 - share * (HEIGHT - 28 - 34)
