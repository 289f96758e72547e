"""Log folders made by hand: three brokers with the same partition, to be damaged."""

from tidelog.audit.io import folders, plan, run
from tidelog.log import checkpoints, names
from tidelog.log.index import OffsetIndex
from tidelog.model import TopicPartition
from tidelog.wire.records import HEADER_BYTES, Record, build

NAME = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
BROKERS = (0, 1, 2)
RECORDS = 5
SEGMENT_BATCHES = 20


def batch(base, epoch, *values, key=b"k"):
    """A batch of these values, all with the same key."""
    content = [Record(base + place, 1_000, key, value) for place, value in enumerate(values)]
    return build(content, base_offset=base, leader_epoch=epoch, keep_offsets=True)


def batches(count, *, epoch_of=lambda number: number // 30):
    """So many batches of five records; the epoch rises every thirty."""
    return [
        batch(number * RECORDS, epoch_of(number), *(b"v%d" % (number * RECORDS + place) for place in range(RECORDS)))
        for number in range(count)
    ]


def write_replica(home, broker, content, *, name=NAME, high_watermark=None, topic_id=TOPIC_ID):
    """One replica below `home`/broker, a segment for every twenty batches, with all that stands beside it."""
    folder = home / str(broker)
    path = folder / str(name)
    path.mkdir(parents=True)
    epochs, end = {}, 0
    for start in range(0, len(content), SEGMENT_BATCHES):
        own = content[start : start + SEGMENT_BATCHES]
        base = int.from_bytes(own[0][:8])
        index, position = OffsetIndex(base), 0
        for raw in own:
            offset, epoch = int.from_bytes(raw[:8]), int.from_bytes(raw[12:16])
            end = offset + int.from_bytes(raw[23:27]) + 1
            epochs.setdefault(epoch, offset)
            if position:
                index.append(end - 1, position)
            position += len(raw)
        (path / names.name(base, names.LOG)).write_bytes(b"".join(own))
        (path / names.name(base, names.INDEX)).write_bytes(index.content)
    mark = end if high_watermark is None else high_watermark
    (path / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.format_epochs(epochs.items()))
    (path / checkpoints.PARTITION_METADATA).write_bytes(checkpoints.format_partition_metadata(topic_id))
    (folder / checkpoints.META_PROPERTIES).write_bytes(
        checkpoints.format_meta_properties(checkpoints.MetaProperties("c", broker))
    )
    offsets = checkpoints.format_offsets([(name, mark)])
    (folder / checkpoints.REPLICATION_OFFSETS).write_bytes(offsets)
    (folder / checkpoints.RECOVERY_POINTS).write_bytes(offsets)
    return path


def write_cluster(home, content=None):
    """Three replicas that are the same; their folders."""
    whole = batches(100) if content is None else content
    return [write_replica(home, broker, whole) for broker in BROKERS]


def audited(*homes, **asked):
    """The report on what is below these places."""
    return run.audit(plan.of_folders(folders.find(homes), **asked))


def found(report):
    """(kind, brokers, first offset) of everything that was found."""
    return [(each.kind, each.brokers, each.start) for each in report.findings]


def segment(path, number):
    """The file of one of a replica's segments."""
    return sorted(path.glob("*.log"))[number]


def remove_segment(path, number):
    file = segment(path, number)
    for each in path.glob(f"{file.stem}.*"):
        each.unlink()


def flip(file, position, bit=1):
    content = bytearray(file.read_bytes())
    content[position] ^= bit
    file.write_bytes(content)


def flip_record(file):
    """A bit of the first batch's first record."""
    flip(file, HEADER_BYTES + 10)
