"""The captions of a story of voters: messages between them, and what happens to them, as short plain texts."""

from collections.abc import Callable
from typing import Any

from tidelog.effects import Event
from tidelog.errors import ErrorCode
from tidelog.lab.voters.views import records_on
from tidelog.lab.voters.world import Letter, VoterWorld
from tidelog.model import NO_LEADER
from tidelog.quorum.requests import answered_partition, content_of, only_partition, standing_of
from tidelog.wire.records import batches

_ENTERED = {
    "Prospective": "{who} asks whether it would win an election after epoch {epoch}",
    "Candidate": "{who} stands for election in epoch {epoch}",
    "Leader": "{who} leads in epoch {epoch}",
    "Resigned": "{who} resigns: no majority fetches from it",
    "Follower": "{who} follows {leader} in epoch {epoch}",
    "Unattached": "{who} is in epoch {epoch} and knows no leader",
}


class Captions:
    """Texts for letters and events. Fetches are shown where something is new."""

    def __init__(self, world: VoterWorld) -> None:
        self.world = world
        self._fetched: dict[tuple[str, str], tuple[int, int]] = {}
        """From which offset, and with which high watermark, the one fetched from the other last."""
        self._texts: dict[str, Callable[[Letter], str]] = {
            "Vote": self._vote,
            "Vote answer": self._vote_answer,
            "BeginQuorumEpoch": self._begun,
            "BeginQuorumEpoch answer": lambda letter: _refusal(letter.message),
            "EndQuorumEpoch": lambda letter: (
                f"I do not lead epoch {only_partition(letter.message).leader_epoch} any more"
            ),
            "Fetch": self._fetch,
            "Fetch answer": self._fetch_answer,
            "FetchSnapshot": lambda _: "your snapshot, please",
        }

    def __repr__(self) -> str:
        return f"Captions({self.world})"

    def letter(self, letter: Letter) -> str:
        """Return what the letter says; empty if nothing new."""
        text = self._texts.get(letter.kind)
        return text(letter) if text is not None else ""

    def _name(self, node: int) -> str:
        return self.world.names[node] if node != NO_LEADER else "nobody"

    def _vote(self, letter: Letter) -> str:
        asked = only_partition(letter.message)
        log = f"my log ends at {asked.last_offset} with epoch {asked.last_offset_epoch}"
        if asked.pre_vote:
            return f"would you vote for me? {log}"
        return f"vote for me in epoch {asked.replica_epoch}: {log}"

    def _vote_answer(self, letter: Letter) -> str:
        answer = answered_partition(letter.message)
        if answer.error_code:
            return f"{ErrorCode(answer.error_code).name}, I am in epoch {answer.leader_epoch}"
        return "yes" if answer.vote_granted else "no"

    def _begun(self, letter: Letter) -> str:
        return f"I lead in epoch {only_partition(letter.message).leader_epoch}"

    def _fetch(self, letter: Letter) -> str:
        asked, way = only_partition(letter.message), (letter.source, letter.target)
        before, self._fetched[way] = self._fetched.get(way), (asked.fetch_offset, asked.high_watermark)
        return f"from {asked.fetch_offset}" if before is None or before[0] != asked.fetch_offset else ""

    def _fetch_answer(self, letter: Letter) -> str:
        answer = answered_partition(letter.message)
        if answer.error_code:
            standing = standing_of(answer)
            code = ErrorCode(answer.error_code).name
            return f"{code}: {self._name(standing.leader)} leads in epoch {standing.epoch}"
        if answer.diverging_epoch.end_offset >= 0:
            return f"the logs part: my epoch {answer.diverging_epoch.epoch} ends at {answer.diverging_epoch.end_offset}"
        labels = self._labels(letter.source, answer.records)
        known = self._fetched.get((letter.target, letter.source), (0, -1))[1]
        if not labels and answer.high_watermark in (known, -1):
            return ""
        return ", ".join([*labels, f"HW {max(answer.high_watermark, 0)}"])

    def _labels(self, source: str, content: Any) -> list[str]:
        """What was read of the log of the sender."""
        offsets = {offset for b in batches(content_of(content)) for offset in range(b.base_offset, b.next_offset)}
        machine = self.world.machines[self.world.names.index(source)]
        return [record.label for record in records_on(self.world, machine) if record.offset in offsets]

    def event(self, who: str, event: Event) -> str:
        """Return a line on what happened; empty if the story does not show it."""
        fields = event.fields
        match event.kind:
            case "quorum.state":
                leader = self._name(fields["leader"])
                return _ENTERED[fields["state"]].format(who=who, epoch=fields["epoch"], leader=leader)
            case "quorum.cut":
                return f"{who} cuts its log to {fields['offset']}"
            case "quorum.committed":
                return f"{who} commits up to {fields['offset']}"
            case "quorum.snapshot":
                return f"{who} has a snapshot up to {fields['offset']}"
        return ""


def _refusal(response: Any) -> str:
    answer = answered_partition(response)
    code = response.error_code or (answer.error_code if answer is not None else 0)
    return ErrorCode(code).name if code else ""
