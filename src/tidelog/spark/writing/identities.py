"""Transactional ids: which one a task may write under.

Nobody else may ever begin a transaction under an id that may be prepared: that would abort it. Two attempts of one task
run at once where Spark speculates, and a task whose driver is gone may go on for a while, so ids are not made from the
number of the task or the attempt, but belong to a process: it does one task after another, and when it is dead it does
none. Within the process an id is taken again only in a later batch of its query: Spark begins that when all of the
batch before are ended.
"""

import os

_slots: dict[str, list[int]] = {}
_process: tuple[int, str] = (0, "")


def take(key: str, batch: int) -> tuple[str, bool]:
    """An id for one task of a batch of the query `key`, and whether it is new."""
    slots = _slots_of(key)
    for number, last in enumerate(slots):
        if last < batch:
            slots[number] = batch
            return f"{key}-{_process[1]}-{number}", False
    slots.append(batch)
    return f"{key}-{_process[1]}-{len(slots) - 1}", True


def _slots_of(key: str) -> list[int]:
    """A process that was forked has ids of its own."""
    global _process  # noqa: PLW0603  what a process is, is global
    if _process[0] != os.getpid():
        _process = (os.getpid(), os.urandom(6).hex())
        _slots.clear()
    return _slots.setdefault(key, [])
