"""A segment's offset index held against its batches (I2)."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from tidelog.audit.core.finding import INDEX
from tidelog.audit.core.scanning import Fault
from tidelog.log import names

_ENTRY = Struct(">ii")
MOST = 3


def faults(log_path: str, places: "array[int]") -> Iterator[Fault]:
    """Entries that name no batch; `places` has (position, base offset, end) of each batch of the file. What follows the
    entries of a file that was made before it was needed is zeros; nobody knows what is beyond the last batch of a log
    that is damaged, or being written."""
    path = Path(log_path).with_suffix(names.INDEX)
    base = names.offset_of(path.name) or 0
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    positions = places[0::3]
    last, told = -1, 0
    for number, (relative, position) in enumerate(_ENTRY.iter_unpack(content[: len(content) // 8 * 8])):
        if relative == 0 and position == 0 and number:
            return
        if not positions or position > positions[-1]:
            return
        slot = bisect_left(positions, position)
        is_batch = slot < len(positions) and positions[slot] == position
        offset = base + relative
        if relative <= last or not is_batch or not places[3 * slot + 1] <= offset < places[3 * slot + 2]:
            yield Fault(
                INDEX, offset, offset + 1, f"{path.name}: entry {number} names offset {offset} at byte {position}"
            )
            told += 1
        last = relative
        if told == MOST:
            return
