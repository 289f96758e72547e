"""What the brokers of a story have on their disks at its end, as folders: for `tidelog audit` and Kafka's own tools."""

from pathlib import Path

from tidelog.check.history.operation import INVOKE, OK, SEND, Header, Operation, Send
from tidelog.check.history.text import end_line, header_line, operation_line
from tidelog.lab.play import ACKNOWLEDGED, Play
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties
from tidelog.sim.world import ROOT

CLUSTER = "lab"
HISTORY = "history.jsonl"


def keep(play: Play, folder: Path) -> None:
    """Write what each broker has in its page cache to `folder`/its name, and what was acknowledged as a history.
    FileExistsError where something is there already: logs of two stories must not be mixed."""
    for broker in play.stage.brokers:
        host, home = play.stage.hosts[broker], folder / broker
        home.mkdir(parents=True)
        for path, inode in host.disk.names.items():
            place = home / path.removeprefix(ROOT).lstrip("/")
            if inode is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(bytes(inode.cached))
        (home / META_PROPERTIES).write_bytes(format_meta_properties(MetaProperties(CLUSTER, host.broker_id)))
    (folder / HISTORY).write_text("".join(f"{line}\n" for line in _history(play)), encoding="utf-8")


def _history(play: Play) -> list[str]:
    """As `tidelog check` writes it: every record that was acknowledged, the last time that it was sent."""
    told = {sent.label: sent.offset for sent in play.sent if sent.outcome == ACKNOWLEDGED and sent.offset >= 0}
    lines = [header_line(Header([play.name], {"story": play.story.name}))]
    for number, (label, offset) in enumerate(told.items()):
        for place, (type_, sent) in enumerate(((INVOKE, None), (OK, offset))):
            moment = 2 * number + place
            lines.append(operation_line(Operation(0, moment, moment, 0, type_, SEND, [Send(0, sent, label)])))
    return [*lines, end_line(2 * len(told))]
