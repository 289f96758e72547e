"""An application that reads the topic record by record, carries each out, and keeps its position.

`at_most_once` commits its position first, `at_least_once` afterwards; `exactly_once` writes its result and its position
in one transaction. A crash between the two halves shows what each is worth.
"""

from typing import Any

from tidelog.lab import asking
from tidelog.lab.commands import transaction
from tidelog.lab.commands.clients import read
from tidelog.lab.commands.command_entry import CommandEntry, entry
from tidelog.lab.commands.transaction import GROUP, coordinator, patiently
from tidelog.lab.language import Command
from tidelog.lab.play import Play
from tidelog.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

SEMANTICS = ("at_most_once", "at_least_once", "exactly_once")


def work(play: Play, command: Command) -> None:
    """Carry out the next record, or all; `crash=between` dies between the two halves of one, whatever their order."""
    if command.words not in ([], ["all"]):
        raise play.impossible(f"expected `work` or `work all`, not `{command.text}`.")
    if play.application.killed:
        raise play.impossible("the application is down; expected `recover` before.")
    semantics, crashes = _semantics(play, command), command.options.get("crash", "")
    if crashes not in ("", "between"):
        raise play.impossible(f"expected crash=between, not crash={crashes}.")
    found = read(play, play.leader(), play.application.position)
    if not found and not command.words:
        raise play.impossible("there is nothing to read; expected a committed record.")
    for offset, value in found if command.words else found[:1]:
        _carry_out(play, offset, value, semantics, crashes=bool(crashes))
        if crashes:
            return


def _semantics(play: Play, command: Command) -> str:
    semantics = command.options.get("semantics", play.knobs.get("semantics", ""))
    if semantics not in SEMANTICS:
        raise play.impossible(f"expected semantics={'|'.join(SEMANTICS)}.")
    return semantics


def _carry_out(play: Play, offset: int, value: str, semantics: str, *, crashes: bool) -> None:
    application = play.application
    if semantics == "exactly_once":
        transaction.carry_out(play, value, offset + 1, end=not crashes)
        application.done = transaction.results(play)
    else:
        if semantics == "at_least_once" or not crashes:
            application.done.append(value)
        if semantics == "at_most_once" or not crashes:
            _commit(play, offset + 1)
    application.position = offset + 1
    application.killed = crashes
    play.told.append(f"the application {'dies over' if crashes else 'has carried out'} {value}")


def recover(play: Play, command: Command) -> None:
    """The application starts again, at its committed position. A transaction that its last life left open is aborted
    first: that life is fenced."""
    application = play.application
    application.killed = False
    if _semantics(play, command) == "exactly_once":
        transaction.begin_anew(play)
        application.done = transaction.results(play)
    application.position = _committed(play)
    play.told.append(f"the application goes on from offset {application.position}")


def _commit(play: Play, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=play.name.topic, partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])
    patiently(play, lambda: coordinator(play), asking.OFFSET_COMMIT, request, _code)


def _committed(play: Play) -> int:
    topic = OffsetFetchRequestTopic(name=play.name.topic, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
    answer = patiently(play, lambda: coordinator(play), asking.OFFSET_FETCH, request, _code)
    return max(0, int(answer.topics[0].partitions[0].committed_offset))


def _code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code) if answer.topics else int(answer.error_code)


COMMANDS: dict[str, CommandEntry] = {
    "work": entry("work [all] [crash=between] [semantics=…]", work, 0, 1, "crash", "semantics"),
    "recover": entry("recover [semantics=…]", recover, 0, 0, "semantics"),
}
