"""What a row measures, and the one way in which it does: both sides up, one unmeasured pass each, then in turns."""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.sides import Kafka, Side, Tidelog

PASSES = 3

Figures = dict[str, float]
"""What one pass found, by the name of the measure."""

Load = Callable[[Side], Figures]


@dataclass(frozen=True)
class Target:
    """What must be reached: Tidelog's median itself, or divided by Kafka's (`ratio`), at least or at most `bound`."""

    bound: float
    at_least: bool = False
    ratio: bool = True

    def __str__(self) -> str:
        return f"{'ratio ' if self.ratio else ''}{'≥' if self.at_least else '≤'} {self.bound:g}"

    def holds(self, tidelog: float, kafka: float) -> bool:
        value = tidelog / kafka if self.ratio else tidelog
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass
class Measure:
    """One line of the table. Samples by side; `cold` is each side's first pass; `cpu` the brokers' CPU seconds of the
    measured passes; `load` of the machine when it began."""

    row: str
    what: str
    unit: str
    target: Target | None
    samples: dict[str, list[float]]
    cold: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        return statistics.median(self.samples[side])


@dataclass
class Passes:
    """All passes of one load on both sides."""

    cold: dict[str, Figures] = field(default_factory=dict)
    measured: dict[str, list[Figures]] = field(default_factory=lambda: {"Tidelog": [], "Kafka": []})
    cpu: dict[str, list[float]] = field(default_factory=lambda: {"Tidelog": [], "Kafka": []})

    def measure(self, name: str, row: str, what: str, unit: str, target: Target | None) -> Measure:
        """The measure of the figures with this name."""
        samples = {side: [figures[name] for figures in found] for side, found in self.measured.items()}
        cold = {side: figures[name] for side, figures in self.cold.items()}
        return Measure(row, what, unit, target, samples, cold, self.cpu)


@contextmanager
def pair(brokers: int, *, keystore: Path | None = None, **options: str) -> Iterator[list[Side]]:
    """Both sides, running, with so many brokers each; options have underscores for dots. With a key store both have a
    TLS listener, too."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        ours = Tidelog(Path(folder) / "tidelog", brokers, given, keystore)
        theirs = Kafka(Path(folder) / "kafka", brokers, given, keystore)
        with ours, theirs:
            yield [ours, theirs]


def alternate(sides: list[Side], load: Load, passes: int = PASSES) -> Passes:
    """Warm each side with one pass, then measure in turns. `cpu` is of the whole load, unless it measures its own."""
    found = Passes()
    for number in range(passes + 1):
        for side in sides:
            before = side.cpu_seconds()
            figures = load(side)
            cpu = side.cpu_seconds() - before
            figures.setdefault("cpu", cpu)
            print(f"  {side.name:8} {number or 'warm'}  {_told(figures)}", flush=True)
            if number:
                found.measured[side.name].append(figures)
                found.cpu[side.name].append(figures["cpu"])
            else:
                found.cold[side.name] = figures
    return found


def _told(figures: Figures) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
