"""bench/results.json keeps measures with machine, date, commit and load; bench/RESULTS.md is made from it."""

import json
import os
import platform
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.growth import plot, table
from bench.measure import Measure, Target
from bench.sides import ROOT

HERE = Path(__file__).parent
KEPT = HERE / "results.json"
PAGE = HERE / "RESULTS.md"
PLOT = HERE / "growth.svg"

_LOAD_BEFORE = " ".join(f"{value:.1f}" for value in os.getloadavg())
HEAD = (
    "| row | what | unit | Tidelog | Kafka | ratio | target | | cold: Tidelog / Kafka | broker CPU s: Tidelog / Kafka |"
)


class Results:
    """All measures so far, by row and name."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Any]] = {}
        if KEPT.exists():
            self._kept = json.loads(KEPT.read_text(encoding="utf-8"))

    def keep(self, measure: Measure) -> None:
        """Put it in the place of the older one, and write both files."""
        self._kept[f"{measure.row} {measure.what}"] = {**asdict(measure), "made": _circumstances()}
        KEPT.write_text(json.dumps(self._kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        PAGE.write_text(self.page(), encoding="utf-8")
        PLOT.write_text(plot(self.measures("9")), encoding="utf-8")

    def measures(self, row: str | None = None) -> list[Measure]:
        found = [_revived(kept) for kept in self._kept.values()]
        return [measure for measure in found if row in (None, measure.row)]

    def summary(self, measure: Measure) -> str:
        ours, theirs = measure.median("Tidelog"), measure.median("Kafka")
        return f"= {measure.what}: {_figure(ours)} / {_figure(theirs)} {measure.unit}, {_verdict(measure)}"

    def page(self) -> str:
        rows = sorted((kept for kept in self._kept.values()), key=lambda kept: int(kept["row"]))
        lines = [_line(_revived(kept)) for kept in rows if kept["target"]]
        made = {kept["row"]: kept["made"] for kept in rows}
        notes = (HERE / "notes.md").read_text(encoding="utf-8")
        parts = [notes, "\n".join([HEAD, "|---" * 10 + "|", *lines]), *table(self.measures("9")), _history(made)]
        return "\n\n".join(part.strip() for part in parts) + "\n"


def _revived(kept: dict[str, Any]) -> Measure:
    fields = {name: value for name, value in kept.items() if name != "made"}
    target = kept["target"]
    return Measure(**{**fields, "target": Target(**target) if target else None})


def _line(measure: Measure) -> str:
    ours, theirs = measure.median("Tidelog"), measure.median("Kafka")
    cold = " / ".join(_figure(measure.cold[side]) if side in measure.cold else "-" for side in ("Tidelog", "Kafka"))
    cpu = " / ".join(_cpu(measure, side) for side in ("Tidelog", "Kafka"))
    cells = (measure.row, measure.what, measure.unit, _spread(measure, "Tidelog"), _spread(measure, "Kafka"),
             f"{ours / theirs:.2f}", measure.target, _verdict(measure), cold, cpu)  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _spread(measure: Measure, side: str) -> str:
    """The median, and the smallest and largest sample."""
    samples = measure.samples[side]
    return f"**{_figure(measure.median(side))}** ({_figure(min(samples))} to {_figure(max(samples))})"


def _cpu(measure: Measure, side: str) -> str:
    samples = sorted(measure.cpu.get(side, []))
    return _figure(samples[len(samples) // 2]) if samples else "-"


def _verdict(measure: Measure) -> str:
    if measure.target is None:
        return ""
    return "ok" if measure.target.holds(measure.median("Tidelog"), measure.median("Kafka")) else "**falls short**"


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _circumstances() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit.stdout.strip(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB",
        "system": f"Linux {platform.release()}, Python {platform.python_version()}, {_java()}",
        "load": _LOAD_BEFORE,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _java() -> str:
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return printed.splitlines()[0].replace('"', "")


def _history(made: dict[str, dict[str, str]]) -> str:
    """Under which circumstances each row was measured."""
    lines = [
        f"| {row} | {each['date']} | `{each['commit']}` | {each['load']} | {each['machine']} | {each['system']} |"
        for row, each in made.items()
    ]
    head = "| row | measured | commit | load average before the run (1, 5, 15 min) | machine | system |"
    return "\n".join(["## Circumstances", "", head, "|---" * 6 + "|", *lines])
