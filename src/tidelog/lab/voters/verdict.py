"""The verdict on a story of voters, from the bytes of their logs: committed records that are gone, offsets where logs
differ, and epochs with two leaders."""

from dataclasses import replace

from tidelog.lab.playback import RecordView, Verdict
from tidelog.lab.verdict import apart_sentence, differs
from tidelog.lab.voters.play import VoterPlay
from tidelog.lab.voters.views import records_on, voters

ALL_WELL = "Every committed record is there, and all logs agree."
NO_QUORUM = "There is no quorum."
NOBODY_LEADS = "Nobody leads: no majority of the voters is there."


def verdict(play: VoterPlay) -> Verdict:
    if not play.has_stage:
        return Verdict(ok=True, sentences=[NO_QUORUM])
    gone = lost(play)
    sentences = [f"{record.label} was committed at offset {record.offset}, and is gone." for record in gone]
    views = [view for view in voters(play.world) if view.alive]
    apart = differs(views)
    sentences += [apart_sentence(views, offset) for offset in apart]
    sentences += [
        f"Epoch {epoch} had two leaders: {' and '.join(names)}."
        for epoch, names in sorted(play.leaders.items())
        if len(names) > 1
    ]
    sentences += [
        f"The process of {name} ended: what it found cannot be while the rules hold."
        for name in dict.fromkeys(play.broken)
    ]
    waiting = [] if play.leader() is not None else [NOBODY_LEADS]
    well = not sentences
    return Verdict(well, gone, apart, ([ALL_WELL] if well else sentences) + waiting)


def lost(play: VoterPlay) -> list[RecordView]:
    """Return committed records that the leader does not hold at their offset; without a leader, that no disk holds."""
    leader = play.leader()
    holders = [leader] if leader is not None else play.world.machines
    held = {(record.offset, record.label) for machine in holders for record in records_on(play.world, machine)}
    return [replace(record, synced=False) for key, record in sorted(play.committed.items()) if key not in held]
