"""The end of a workload: fresh consumers read every partition from the beginning to the end, and ask for what the
group committed.
"""

import time
from threading import Thread

from tidelog.check.history.operation import COMMITTED, DEBUG, INFO, OK, SCAN_BEGINS, SCAN_ENDS
from tidelog.check.workload.ground import Ground
from tidelog.check.workload.knowledge import Knowledge
from tidelog.check.workload.process import Process
from tidelog.check.workload.recorder import Recorder
from tidelog.client.results import CommittedOffset
from tidelog.errors import ApiError
from tidelog.model import TopicPartition

ROUND_S = 10.0


def scan_all(ground: Ground, recorder: Recorder, knowledge: Knowledge, *, readers: int, within_s: float) -> None:
    """Each reader tries again and again, with a fresh process, until it has read everything or the time is over."""
    deadline = time.monotonic() + within_s
    threads = [Thread(target=_scan, args=(ground, recorder, knowledge, deadline)) for _ in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _ask_committed(ground, recorder, knowledge)


def _scan(ground: Ground, recorder: Recorder, knowledge: Knowledge, deadline: float) -> None:
    while time.monotonic() < deadline:
        process = Process(ground, recorder, knowledge, subscribes=False)
        try:
            if _read_all(process, ground, knowledge, min(deadline, time.monotonic() + ROUND_S), deadline):
                return
        except ApiError:
            continue  # the offsets could not be asked for
        finally:
            process.abandon()


def _read_all(process: Process, ground: Ground, knowledge: Knowledge, until: float, deadline: float) -> bool:
    """Read to the end of each partition and to the end of what is known to be there. At the last moment the partition's
    own end is enough: what is missing then is missing."""
    ends = process.consumer.end_offsets(ground.partitions)
    wanted = {place: max(ends[place], knowledge.ends[key]) for key, place in enumerate(ground.partitions)}
    process.begin(DEBUG, SCAN_BEGINS)
    process.end(OK, DEBUG, SCAN_BEGINS)
    process.assign(dict.fromkeys(range(len(ground.partitions)), 0))
    while not _has_reached(process, wanted):
        if time.monotonic() >= until:
            if until < deadline or not _has_reached(process, ends):
                return False
            break
        process.poll()
        if process.is_retired:
            return False
    process.begin(DEBUG, SCAN_ENDS)
    process.end(OK, DEBUG, SCAN_ENDS)
    return True


def _has_reached(process: Process, wanted: dict[TopicPartition, int]) -> bool:
    return all(process.consumer.position(place) >= end for place, end in wanted.items())


def _ask_committed(ground: Ground, recorder: Recorder, knowledge: Knowledge) -> None:
    process = Process(ground, recorder, knowledge, subscribes=True)
    process.begin(COMMITTED, None)
    try:
        found: dict[TopicPartition, CommittedOffset] = process.consumer.committed(ground.partitions)
    except ApiError:
        process.end(INFO, COMMITTED, None)
    else:
        process.end(OK, COMMITTED, {ground.key_of(*place): address_of.offset for place, address_of in found.items()})
    finally:
        process.abandon()
