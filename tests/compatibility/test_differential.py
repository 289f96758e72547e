"""The same script of requests, good and bad, to Tidelog and to a real Apache Kafka: the answers are compared field by
field. What differs stands in docs/differences.md with the reason; anything else is a failure.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module

import pytest

from tests.compatibility.differential import brokers
from tests.compatibility.differential.allowed import ALLOWED
from tests.compatibility.differential.comparison import differences
from tests.compatibility.differential.side import Side
from tests.conftest import ROOT
from tidelog.api.registry import APIS

pytestmark = pytest.mark.timeout(900)

SCRIPTS = (
    "produce",
    "fetch",
    "topics",
    "configs",
    "cluster",
    "groups",
    "members",
    "consumer",
    "transactions",
    "quotas",
    "moves",
    "broker_options",
    "quorum",
)
MOST_SHOWN = 60


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, kafka_libs, kafka_tool) -> Iterator[dict[str, tuple[Side, Side]]]:
    """(ours, Kafka's) by script. Both brokers start at the same time, and both sides run a script at the same time."""
    folder = tmp_path_factory.mktemp("twins")
    with ExitStack() as running, ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(running.enter_context, brokers.kafka(folder / "kafka", kafka_libs, tool=kafka_tool))
        ours = running.enter_context(brokers.tidelog(folder / "tidelog"))
        with_quorum = running.enter_context(brokers.tidelog(folder / "quorum", quorum=True))
        ports = {script: with_quorum if script == "quorum" else ours for script in SCRIPTS}
        yield {script: _recorded(script, (ports[script], theirs.result()), pool) for script in SCRIPTS}


def _recorded(script: str, ports: tuple[int, int], pool: ThreadPoolExecutor) -> tuple[Side, Side]:
    run = import_module(f"tests.compatibility.differential.{script}_script").run
    sides = (Side("Tidelog", ports[0]), Side("Kafka", ports[1]))
    for done in [pool.submit(run, side) for side in sides]:
        done.result()
    for side in sides:
        side.close()
    return sides


@pytest.mark.parametrize("script", SCRIPTS)
def test_answers_are_those_of_kafka(script, recordings):
    ours, theirs = recordings[script]
    assert [label for label, _ in ours.answers] == [label for label, _ in theirs.answers]
    unknown = [
        f"{label}\n  {path}\n    Tidelog {left!r:.300}\n    Kafka   {right!r:.300}"
        for label, path, left, right in _found(ours, theirs)
        if not any(line.covers(label, path, left) for line in ALLOWED)
    ]
    assert not unknown, f"{len(unknown)} differences that nobody explained:\n" + "\n".join(unknown[:MOST_SHOWN])


def test_every_api_is_asked_in_its_oldest_and_newest_version(recordings):
    asked = {each for ours, _ in recordings.values() for each in ours.asked}
    served = {
        (api.name, version)
        for api in APIS.values()
        if api.caller in ("anyone", "quorum")
        for version in (api.low, api.high)
    }
    assert served - asked == set()


def test_every_allowed_difference_is_explained_and_still_one(recordings):
    document = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^### (.+)$", document, re.MULTILINE))
    assert {line.heading for line in ALLOWED} - headings == set()
    found = [each[:3] for ours, theirs in recordings.values() for each in _found(ours, theirs)]
    assert [line for line in ALLOWED if not any(line.covers(*each) for each in found)] == []


def _found(ours: Side, theirs: Side):
    for (label, left), (_, right) in zip(ours.answers, theirs.answers, strict=True):
        for path, mine, his in differences(left, right):
            yield label, path, mine, his
