"""Regression stories: each `*.txt` here is played, and every command must print what is below it.

`pytest tests/scenarios --rewrite-scenarios` writes down what is told now; look at the difference before you commit it.
A bug that a seed found is told here as the smallest story: the seed proves, the story explains.
"""

from pathlib import Path

import pytest

from tidelog.lab.engine import tell
from tidelog.lab.kinds import VERBS
from tidelog.lab.language import read, rewritten

HERE = Path(__file__).parent
QUIET = ["ok"]
"""The expected output of a command that prints nothing."""


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_a_scenario_tells_what_it_told(path, request):
    text = path.read_text(encoding="utf-8")
    story = read(path.stem, path.name, text, VERBS)
    told = {}
    telling = tell(story, told=lambda command, lines: told.__setitem__(command.line, (command, lines or QUIET)))
    if request.config.getoption("--rewrite-scenarios"):
        path.write_text(rewritten(text, {line: lines for line, (_, lines) in told.items()}), encoding="utf-8")
        return
    for line, (command, lines) in told.items():
        assert lines == command.expected, f"{path.name}:{line}: {command.text}"
    assert story.title
    assert story.source, "a scenario says where it comes from"
    assert telling.verdict.ok, telling.verdict.sentences
