"""The scenario language: how a story is written, and what is wrong with a text that is not a story.

A story is a text of lines: first its header (`title:`, `source:`, `about:`, `knob NAME: VALUE [DEFAULT] …`), then
steps:

    step: What happens, in one sentence.
    why: Why it happens.
    command words option=value
    ----
    what the command is expected to tell, up to an empty line

A command above the first `step:` is a step of its own. A line may begin with a guard, `{knob=value|value}` or
`{knob!=value}` (also `why {…}: …`): it applies only if the knobs have these values; on a `step:` it applies to the
whole step. `$knob` stands for the knob's value, `#` begins a comment. Every error names the file, the line, and what
was expected.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

HEADERS = ("title", "source", "about")
OUTPUT = "----"
GUARD = re.compile(r"(step|says|why)?\s*\{([^}]*)\}\s*(.*)")
CONDITION = re.compile(r"([\w.]+)(!?=)(.+)")
KNOB = re.compile(r"knob\s+([\w.]+)\s*:\s*(.+)")
PLACEHOLDER = re.compile(r"\$([\w.]*\w)")


class StoryError(Exception):
    """A story that cannot be read or told: `FILE:LINE: sentence`."""

    def __init__(self, file: str, line: int, sentence: str) -> None:
        super().__init__(f"{file}:{line}: {sentence}")
        self.line = line


class Condition(NamedTuple):
    knob: str
    holds: bool
    values: Sequence[str]


Guard = tuple[Condition, ...]


@dataclass(slots=True)
class Sentence:
    text: str
    guard: Guard


@dataclass(slots=True)
class Command:
    """One command with its words, its options (`name=value`), and the lines it is expected to tell (None: any)."""

    verb: str
    words: list[str]
    options: dict[str, str]
    line: int
    guard: Guard = ()
    text: str = ""
    expected: list[str] | None = None


@dataclass(slots=True)
class StepText:
    """`says` and `why` have one sentence for each setting of the knobs; the last whose guard holds is told."""

    line: int
    guard: Guard = ()
    says: list[Sentence] = field(default_factory=list)
    why: list[Sentence] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)


@dataclass(slots=True)
class Knob:
    name: str
    values: list[str]
    default: str


@dataclass(slots=True)
class Story:
    name: str
    file: str
    title: str = ""
    source: str = ""
    about: str = ""
    knobs: dict[str, Knob] = field(default_factory=dict)
    steps: list[StepText] = field(default_factory=list)

    def error(self, line: int, sentence: str) -> StoryError:
        return StoryError(self.file, line, sentence)

    def settled(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the value of every knob; ValueError if the story does not have the knob or does not
        allow the value.
        """
        for name, value in given.items():
            knob = self.knobs.get(name)
            if knob is None:
                offered = ", ".join(self.knobs) or "none"
                raise ValueError(f"{self.name} has no knob {name}; it has: {offered}.")
            if value not in knob.values:
                raise ValueError(
                    f"{self.name}: {value!r} is not a value of {name}; expected one of {', '.join(knob.values)}."
                )
        return {name: given.get(name, knob.default) for name, knob in self.knobs.items()}


def holds(guard: Guard, knobs: Mapping[str, str]) -> bool:
    return all((knobs[condition.knob] in condition.values) is condition.holds for condition in guard)


def filled(text: str, knobs: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: knobs.get(match[1], match[0]), text)


class Verb(NamedTuple):
    """How a command is written: its usage, its least and most words, and the names of its options (None: any)."""

    usage: str
    least: int
    most: int | None
    options: frozenset[str] | None = frozenset()


class Reader:
    """Reads one text, line by line."""

    def __init__(self, name: str, file: str, text: str, verbs: Mapping[str, Verb]) -> None:
        self.story = Story(name, file)
        self.verbs = verbs
        self.lines = text.splitlines()
        self.number = 0
        self.step: StepText | None = None
        self.last: Command | None = None

    def read(self) -> Story:
        for line in self._next():
            content = line.split(" #", 1)[0].rstrip() if not line.startswith("#") else ""
            if line == OUTPUT:
                self._output()
            elif content.strip():
                self._line(content.strip())
        if not self.story.steps:
            raise self._error("the story has no step; expected `step: …` or a command.")
        return self.story

    def _next(self) -> Iterator[str]:
        while self.number < len(self.lines):
            self.number += 1
            yield self.lines[self.number - 1]

    def _error(self, sentence: str) -> StoryError:
        return self.story.error(self.number, sentence)

    def _line(self, content: str) -> None:
        guard: Guard = ()
        guarded = GUARD.fullmatch(content)
        if guarded is not None:
            guard, content = self._guard(guarded[2]), (guarded[1] or "") + guarded[3]
        knob = KNOB.fullmatch(content)
        key, colon, rest = content.partition(":")
        if knob is not None:
            self._knob(knob[1], knob[2].split())
        elif colon and key in HEADERS:
            if self.story.steps:
                raise self._error(f"`{key}:` stands above the first step; expected `step:`, `why:` or a command.")
            setattr(self.story, key, " ".join(filter(None, (getattr(self.story, key), rest.strip()))))
        elif colon and key in ("step", "says"):
            self._says(key, rest.strip(), guard)
        elif colon and key == "why":
            self._current("why").why.append(Sentence(self._sentence(rest), guard))
        else:
            self._command(content, guard)

    def _sentence(self, text: str) -> str:
        if not text.strip():
            raise self._error("expected a sentence after the colon.")
        return self._known(text.strip())

    def _says(self, key: str, text: str, guard: Guard) -> None:
        if key == "says":
            self._current("says").says.append(Sentence(self._sentence(text), guard))
            return
        self.step = StepText(self.number, guard, [Sentence(self._sentence(text), ())])
        self.story.steps.append(self.step)

    def _current(self, key: str) -> StepText:
        if self.step is None:
            raise self._error(f"`{key}:` belongs to a step; expected `step:` first.")
        return self.step

    def _knob(self, name: str, words: list[str]) -> None:
        defaults = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
        if len(defaults) != 1:
            raise self._error("expected exactly one value in brackets, the default: `knob acks: [all] 1`.")
        if self.story.steps:
            raise self._error("a knob stands above the first step.")
        self.story.knobs[name] = Knob(name, [word.strip("[]") for word in words], defaults[0])

    def _guard(self, text: str) -> Guard:
        return tuple(self._condition(part.strip()) for part in text.split(","))

    def _condition(self, text: str) -> Condition:
        match = CONDITION.fullmatch(text)
        if match is None:
            raise self._error(f"expected a condition as in {{acks=all}}, not {{{text}}}.")
        knob, values = self.story.knobs.get(match[1]), match[3].split("|")
        if knob is None:
            raise self._error(f"there is no knob {match[1]}; expected one of: {', '.join(self.story.knobs) or 'none'}.")
        for value in values:
            if value not in knob.values:
                raise self._error(f"{match[1]} is never {value}; expected one of: {', '.join(knob.values)}.")
        return Condition(match[1], match[2] == "=", values)

    def _known(self, text: str) -> str:
        for name in PLACEHOLDER.findall(text):
            if name not in self.story.knobs:
                raise self._error(f"there is no knob {name}; expected one of: {', '.join(self.story.knobs) or 'none'}.")
        return text

    def _command(self, content: str, guard: Guard) -> None:
        verb, *rest = self._known(content).split()
        known = self.verbs.get(verb)
        if known is None:
            raise self._error(f"`{verb}` is no command; expected one of: {', '.join(sorted(self.verbs))}.")
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        words = [word for word in rest if "=" not in word]
        refused = [] if known.options is None else [name for name in options if name not in known.options]
        too_many = known.most is not None and len(words) > known.most
        if refused or too_many or len(words) < known.least:
            raise self._error(f"expected `{known.usage}`, not `{content}`.")
        command = self.last = Command(verb, words, options, self.number, guard, content)
        if self.step is None:
            self.story.steps.append(StepText(self.number, guard, [Sentence(content, ())], [], [command]))
        else:
            self.step.commands.append(command)

    def _output(self) -> None:
        if self.last is None or self.last.expected is not None:
            raise self._error(f"`{OUTPUT}` stands below the command whose output it begins.")
        self.last.expected = []
        for line in self._next():
            if not line.strip():
                return
            self.last.expected.append(line)


def read(name: str, file: str, text: str, verbs: Mapping[str, Verb]) -> Story:
    """Read a story; StoryError if the text is not one."""
    return Reader(name, file, text, verbs).read()


def rewritten(text: str, told: Mapping[int, Sequence[str]]) -> str:
    """Return the text with what each command (by its line) told in place of what was expected."""
    out: list[str] = []
    skipping = False
    for number, line in enumerate(text.splitlines(), 1):
        skipping = line == OUTPUT or (skipping and bool(line.strip()))
        if skipping:
            continue
        if not line.strip() and out and out[-1] == "":
            continue
        out.append(line)
        if number in told:
            out.extend((OUTPUT, *told[number], ""))
    while out and not out[-1]:
        out.pop()
    return "\n".join(out) + "\n"
