"""What is wrong: the findings of rules, and the words that rules share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
"""Most severe first. Notes are not problems."""

SubjectKind = Literal["cluster", "broker", "topic", "partition", "group", "access"]


class Subject(NamedTuple):
    """What a finding is about: `("partition", "flights-0")`, `("broker", "2")`, `("cluster", "")`."""

    kind: SubjectKind
    name: str = ""

    def __str__(self) -> str:
        return self.name if self.kind == "access" else f"{self.kind} {self.name}".rstrip()


CLUSTER = Subject("cluster")


class Advice(NamedTuple):
    """What to do. `command`, if there is one, is a command of `tidelog` without the options that name the cluster
    (`commands.command_line` adds them); `text` then ends with a colon or is empty."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: `says` is what is wrong, `because` the evidence, each a sentence.

    `kind` is a stable dotted name for programs. `more` counts further subjects with the same problem.
    """

    severity: Severity
    kind: str
    subject: Subject
    says: str
    because: Sequence[str] = ()
    helps: Sequence[Advice] = ()
    more: int = 0

    @property
    def is_problem(self) -> bool:
        return self.severity != "note"

    @property
    def about(self) -> str:
        return f"{self.subject} and {self.more} more" if self.more else str(self.subject)


def broker_list(brokers: Sequence[int]) -> str:
    """`broker 1`, `brokers 1 and 2`, `brokers 1, 2 and 3`."""
    names = [str(broker) for broker in brokers]
    if len(names) < 2:
        return f"broker {''.join(names)}"
    return f"brokers {', '.join(names[:-1])} and {names[-1]}"


def size(count: float) -> str:
    """A size in bytes with a unit: `1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(ms: float) -> str:
    """A duration with a unit: `450 ms`, `12 s`, `3 min`, `2.5 h`, `4 days`."""
    for limit, unit, name in ((1000, 1, "ms"), (120_000, 1000, "s"), (7_200_000, 60_000, "min")):
        if ms < limit:
            return f"{ms / unit:.0f} {name}"
    return f"{ms / 3_600_000:.1f} h" if ms < 172_800_000 else f"{ms / 86_400_000:.0f} days"
