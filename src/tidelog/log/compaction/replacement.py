"""The exchange of a group's files, so that a crash or a power loss at any point leaves the group or what replaces it.

1. `.cleaned` → `.swap`, the last segment first; durable. Before the lowest has its new name, recovery undoes all of it;
   from then on it finishes it. 2. The old files → `.deleted`; durable. 3. `.swap` → their own names.

Between the steps the log is in use. From 2 on it is made of the new segments, whatever their files are called. Whoever
takes records out of the log takes the `.swap` files away first (`Contents.withdraw`), or, from 2 on, does 3: recovery
finds no `.swap` file that is older than a change of the log.
"""

from collections.abc import Sequence

from tidelog.log import names
from tidelog.log.compaction.steps import Flush, Steps, Unneeded
from tidelog.log.durability import FolderFile
from tidelog.log.log import Log
from tidelog.log.segment import Segment


def replace(log: Log, group: Sequence[Segment], rewritten: Sequence[Segment]) -> Steps[bool]:
    """Let `rewritten` take the group's place; whether it did."""
    folder = FolderFile(log.segments.disk, log.folder)
    log.replacing = rewritten
    offer(rewritten)
    yield Flush([folder])
    if log.replacing is not rewritten or log.failed:
        return False
    old = log.replace_segments(group)
    yield Flush([folder])
    if not log.failed:
        log.take_names()
        yield Flush([folder])
    yield Unneeded(old)
    return True


def offer(rewritten: Sequence[Segment]) -> None:
    """From the last to the first, so that recovery never finds a first one without those behind it."""
    for segment in reversed(rewritten):
        segment.rename(names.SWAP)
