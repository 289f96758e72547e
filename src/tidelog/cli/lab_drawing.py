"""Draws a story on the terminal: after every step each log is a row of records, coloured by epoch.

In a pipe the lines have no colours. A record is `label@epoch`, followed by `~` if a power loss would lose it, and `┃`
marks the high watermark.
"""

from collections.abc import Iterator

from rich.text import Text

from tidelog.lab.playback import Message, Playback, RecordView, ReplicaView, Step, Verdict

EPOCH_STYLES = ("cyan", "magenta", "yellow", "blue", "green", "red")
ROLE_STYLES = {"leader": "bold", "down": "dim strike"}
HIGH_WATERMARK, BETWEEN = "┃", "│"
ROLE_WIDTH = 9


def heading(playback: Playback) -> Iterator[Text]:
    yield Text(playback.title or playback.name, "bold")
    if playback.source:
        yield Text(f"from {playback.source}", "dim")
    if playback.knobs:
        yield Text(" ".join(f"{name}={value}" for name, value in playback.knobs.items()), "dim")


def step(shown: Step) -> Iterator[Text]:
    yield Text()
    yield Text(f"{shown.number}. {shown.says}", "bold")
    if shown.why:
        yield Text(f"   {shown.why}")
    yield from map(message, shown.messages)
    yield from (Text(f"   · {line}", "dim") for line in shown.happened)
    width = max((len(_record(record)) for view in shown.replicas for record in view.records), default=2)
    longest = max((len(view.records) for view in shown.replicas), default=0)
    role_width = max([ROLE_WIDTH, *(len(view.role) + 1 for view in shown.replicas)])
    yield from (replica(view, width, longest, role_width) for view in shown.replicas)


def message(sent: Message) -> Text:
    arrow = "→" if sent.delivered else "⇢ held:"
    return Text(f"   {sent.source} {arrow} {sent.target}  {sent.kind}: {sent.text}", "dim")


def replica(view: ReplicaView, width: int, longest: int, role_width: int = ROLE_WIDTH) -> Text:
    """One row: the broker, its role, its records, and its offsets."""
    row = Text("   ")
    row.append(f"{view.broker:<3}{view.role:<{role_width}}", ROLE_STYLES.get(view.role, ""))
    for index in range(longest + 1):
        row.append(_border(view, index))
        if index < len(view.records):
            record = view.records[index]
            row.append(f"{_record(record):<{width}}", _style(record))
        elif index < longest:
            row.append(" " * width)
    row.append(f"  LEO {view.leo}  HW {view.hw}")
    if view.voters:
        row.append(f"  epoch {view.leader_epoch}  voted {view.voted or '-'}  voters {' '.join(view.voters)}")
    elif view.epochs or not view.voted:
        row.append(f"  epochs {_epochs(view)}")
    if view.isr:
        row.append(f"  ISR {' '.join(view.isr)}")
    known = " ".join(f"{broker} {'?' if leo < 0 else leo}" for broker, leo in view.remote.items())
    if known:
        row.append(f"  knows {known}")
    return row


def _border(view: ReplicaView, index: int) -> Text:
    """What is drawn before the record at this index: the high watermark, or a border between records."""
    below = sum(record.offset < view.hw for record in view.records)
    if index == below:
        return Text(f" {HIGH_WATERMARK} ", "bold green")
    return Text(f" {BETWEEN} " if index <= len(view.records) else "   ", "dim")


def _record(record: RecordView) -> str:
    return f"{record.label}@{record.epoch}{'' if record.synced else '~'}"


def _style(record: RecordView) -> str:
    colour = EPOCH_STYLES[record.epoch % len(EPOCH_STYLES)]
    return colour if record.synced else f"{colour} italic"


def _epochs(view: ReplicaView) -> str:
    return " ".join(f"{epoch}:{start}" for epoch, start in view.epochs) or "-"


def verdict(found: Verdict) -> Iterator[Text]:
    yield Text()
    yield Text("This ends well." if found.ok else "This does not end well.", "bold green" if found.ok else "bold red")
    yield from (Text(f"   {sentence}") for sentence in found.sentences)
