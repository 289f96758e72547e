"""What the lab's stories leave on their brokers' disks: older generations of truncation are found out, the present one
leaves nothing to find."""

import itertools

import pytest

from tidelog.audit.core import finding
from tidelog.audit.io import folders, plan, run
from tidelog.check.history.text import parse
from tidelog.check.replicas import acknowledged_records
from tidelog.lab.engine import HISTORY, export_disks, find, names, tell
from tidelog.lab.kinds import BROKERS, kind_of


def told(name, home, **knobs):
    """The end of a story, and the report on the folders that it leaves."""
    telling = tell(find(name), knobs, ended=lambda play: export_disks(play, home))
    with (home / HISTORY).open(encoding="utf-8") as lines:
        acknowledged = acknowledged_records(parse(lines))
    return telling, run.audit(plan.of_folders(folders.find([home]), acknowledged=acknowledged))


def kinds(report):
    return {each.kind for each in report.findings if each.is_broken}


def test_a_record_that_diverged_by_truncation_to_the_high_watermark(tmp_path):
    _, report = told("divergence-by-high-watermark", tmp_path, truncation="high_watermark")
    assert kinds(report) == {finding.LINEAGE, finding.DIVERGENCE, finding.ACKNOWLEDGED, finding.ELECTION}
    (divergence,) = [each for each in report.findings if each.kind == finding.DIVERGENCE]
    assert (divergence.start, divergence.end, divergence.brokers) == (1, 2, (1, 2))
    assert report.partitions[0].first_divergence == 1


def test_what_an_unclean_election_lost(tmp_path):
    """Both replicas agree: only who was told so knows what was there."""
    _, report = told("unclean-election", tmp_path, unclean="true")
    assert kinds(report) == {finding.ACKNOWLEDGED}
    assert [each.start for each in report.findings] == [1, 2]


def stories():
    for name in names():
        if kind_of(find(name)) is not BROKERS:
            continue  # metadata logs are no replicas of a topic
        knobs = find(name).knobs.values()
        for values in itertools.product(*(knob.values for knob in knobs)):
            yield pytest.param(
                name, dict(zip((k.name for k in knobs), values, strict=True)), id="-".join((name, *values))
            )


@pytest.mark.parametrize(("name", "knobs"), list(stories()))
def test_the_audit_agrees_with_the_storys_verdict(tmp_path, name, knobs):
    """Where replicas hold different records, and where something acknowledged is gone, both say so."""
    telling = tell(find(name), knobs, ended=lambda play: export_disks(play, tmp_path) if play.has_topic else None)
    try:
        given = folders.find([tmp_path])
    except FileNotFoundError:
        return  # nobody holds anything any more
    with (tmp_path / HISTORY).open(encoding="utf-8") as lines:
        acknowledged = acknowledged_records(parse(lines))
    report = run.audit(plan.of_folders(given, acknowledged=acknowledged))
    assert ({finding.DIVERGENCE, finding.COMMITTED} & kinds(report) != set()) == bool(telling.verdict.differs)
    assert (finding.ACKNOWLEDGED in kinds(report)) == bool(telling.verdict.lost)
