"""The captions of a story: messages between parties and events of brokers, as short plain texts.

A table names the messages that a story shows; all others (metadata, versions, registrations) have no caption.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.effects import Event
from tidelog.errors import ErrorCode
from tidelog.lab.post import Letter
from tidelog.lab.stage import Stage
from tidelog.lab.views import label
from tidelog.model import NO_EPOCH, NO_LEADER, TopicPartition
from tidelog.wire import records

LOG_END_QUERY = -3
PLAIN = {
    "topic.deleting": "the topic is marked for deletion",
    "topic.deleted": "the topic is gone",
    "broker.gone": "the controller notices that {broker} is gone",
    "log.compacted": "{who} compacts its log: {bytes_before} bytes become {bytes_after}",
    "log.uncleanable": "{who} cannot compact its log, and goes on with the others: {reason}",
}


class Captions:
    """Texts for letters and events. `topic_id` is set once the topic is created."""

    def __init__(self, stage: Stage, name: TopicPartition) -> None:
        self.stage = stage
        self.name = name
        self.shown = name
        self.topic_id = b""
        self._offsets: dict[tuple[str, str], str] = {}
        self._texts: dict[str, Callable[[Letter], str]] = {
            "Fetch": self._fetch,
            "Fetch answer": self._fetch_answer,
            "OffsetForLeaderEpoch": self._epoch_question,
            "OffsetForLeaderEpoch answer": self._epoch_answer,
            "Produce": self._produce,
            "Produce answer": self._produce_answer,
            "LeaderAndIsr": self._leader_and_isr,
            "AlterPartition": self._alter_partition,
            "AlterPartition answer": self._alter_answer,
            "StopReplica": self._stop_replica,
            "OffsetCommit": _committed,
            "AddPartitionsToTxn": _adding_partition,
            "TxnOffsetCommit": lambda letter: f"{_committed(letter)}, in my transaction",
            "EndTxn": lambda letter: "commit my transaction" if letter.message.committed else "abort my transaction",
            "WriteTxnMarkers": _markers,
        }

    def __repr__(self) -> str:
        return f"Captions({self.name})"

    def letter(self, letter: Letter) -> str:
        """Return what the letter says about the story's partition; empty if nothing."""
        text = self._texts.get(letter.kind)
        return text(letter) if text is not None else ""

    def names(self, brokers: Sequence[int]) -> str:
        return " ".join(self.stage.names[broker] for broker in brokers)

    def _mine(self, topics: Sequence[Any]) -> Any:
        """Return the entry of the story's partition in a message's topics."""
        for topic in topics:
            known = {getattr(topic, key, None) for key in ("topic_id", "topic", "name")}
            if self.name.topic in known or self.topic_id in known:
                return (getattr(topic, "partitions", None) or getattr(topic, "partition_data", None) or [None])[0]
        return None

    # Fetching.

    def _fetch(self, letter: Letter) -> str:
        mine = self._mine(letter.message.topics)
        way = letter.source, letter.target
        if mine is None:
            return self._offsets.get(way, "") if letter.message.replica_state.replica_id >= 0 else ""
        text = f"from {mine.fetch_offset}"
        if letter.message.replica_state.replica_id >= 0 and mine.current_leader_epoch != NO_EPOCH:
            last = "" if mine.last_fetched_epoch == NO_EPOCH else f", last record of epoch {mine.last_fetched_epoch}"
            text += f", in epoch {mine.current_leader_epoch}{last}"
        self._offsets[way] = text
        return text

    def _fetch_answer(self, letter: Letter) -> str:
        if letter.message.error_code:
            return ErrorCode(letter.message.error_code).name
        mine = self._mine(letter.message.responses)
        if mine is None:
            return "nothing new" if letter.request.replica_state.replica_id >= 0 else ""
        if mine.error_code:
            return ErrorCode(mine.error_code).name
        if mine.diverging_epoch.end_offset >= 0 and not any(_last_epochs(letter.request)):
            return f"your log is longer than mine, which ends at {mine.diverging_epoch.end_offset}"
        if mine.diverging_epoch.end_offset >= 0:
            return f"the logs part: my epoch {mine.diverging_epoch.epoch} ends at {mine.diverging_epoch.end_offset}"
        return f"{' '.join(labels(mine.records)) or 'no records'}, HW {mine.high_watermark}"

    def _epoch_question(self, letter: Letter) -> str:
        if letter.message.replica_id == LOG_END_QUERY:
            return "where does your log end?"
        mine = self._mine(letter.message.topics)
        return f"where does your epoch {mine.leader_epoch} end?" if mine is not None else ""

    def _epoch_answer(self, letter: Letter) -> str:
        mine = self._mine(letter.message.topics)
        if mine is None:
            return ""
        if mine.error_code:
            return ErrorCode(mine.error_code).name
        if mine.end_offset < 0:
            return "I know no such epoch"
        if not self.stage.generation.uses_answered_epoch:
            return f"it ends at {mine.end_offset}"
        return f"epoch {mine.leader_epoch} ends at {mine.end_offset}"

    # Producing.

    def _produce(self, letter: Letter) -> str:
        data = letter.message.topic_data[0].partition_data[0]
        acks = {-1: "all"}.get(letter.message.acks, str(letter.message.acks))
        return f"{' '.join(labels(data.records))}, acks={acks}"

    def _produce_answer(self, letter: Letter) -> str:
        answer = letter.message.responses[0].partition_responses[0]
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        return f"acknowledged at {answer.base_offset}"

    # The controller.

    def _leader_and_isr(self, letter: Letter) -> str:
        for topic in letter.message.topic_states:
            if topic.topic_name == self.name.topic:
                state = topic.partition_states[0]
                return led(self, state.leader, state.leader_epoch, state.isr)
        return ""

    def _alter_partition(self, letter: Letter) -> str:
        mine = self._mine(letter.message.topics)
        members = [member.broker_id for member in mine.new_isr_with_epochs] if mine is not None else []
        return f"ISR {self.names(members)}, please" if members else ""

    def _alter_answer(self, letter: Letter) -> str:
        mine = self._mine(letter.message.topics)
        if mine is None:
            return ""
        return ErrorCode(mine.error_code).name if mine.error_code else f"ISR {self.names(mine.isr)}"

    def _stop_replica(self, letter: Letter) -> str:
        for topic in letter.message.topic_states:
            if topic.topic_name == self.name.topic:
                return "delete your replica" if topic.partition_states[0].delete_partition else "stop your replica"
        return ""

    # Events.

    def event(self, who: str, event: Event) -> str:
        """Return a line on what happened; empty if the story does not show it."""
        fields = event.fields
        if fields.get("topic", self.name.topic) != self.name.topic:
            return ""
        if fields.get("partition", self.name.partition) not in (self.name.partition, str(self.name), str(self.shown)):
            return ""
        match event.kind:
            case "partition.elected":
                return led(self, fields["leader"], fields["leader_epoch"], fields["isr"])
            case "partition.unclean":
                return "an unclean election: the new leader was not known to be in sync"
            case "partition.eligible":
                return "an eligible leader replica leads: no in-sync replica can"
            case "isr.change" if fields["isr"] == fields["previous_isr"]:
                return ""  # the same members, found in sync in another life
            case "isr.change":
                return f"ISR {self.names(fields['isr'])}, before {self.names(fields['previous_isr'])}"
            case "log.truncate":
                return f"{who} cuts its log from {fields['before']} to {fields['offset']}"
            case "replica.deleted":
                return f"{who} deletes its replica"
            case "topic.deleting" | "topic.deleted" | "broker.gone" | "log.compacted" | "log.uncleanable":
                broker = self.stage.names.get(fields.get("broker", -1), "")
                return PLAIN[event.kind].format(**{**fields, "who": who, "broker": broker})
        return ""


def led(captions: Captions, leader: int, epoch: int, isr: Sequence[int]) -> str:
    if leader == NO_LEADER:
        return f"nobody leads in epoch {epoch}, ISR {captions.names(isr)}"
    return f"{captions.stage.names[leader]} leads in epoch {epoch}, ISR {captions.names(isr)}"


def _adding_partition(letter: Letter) -> str:
    """A client adds a partition to its transaction, or a broker verifies one before it writes."""
    transactions = letter.message.transactions
    if transactions:
        return f"is {transactions[0].topics[0].name} in this transaction?"
    return f"{letter.message.v3_and_below_topics[0].name} takes part in my transaction"


def _committed(letter: Letter) -> str:
    return f"position {letter.message.topics[0].partitions[0].committed_offset}"


def _markers(letter: Letter) -> str:
    marker = letter.message.markers[0]
    topics = ", ".join(topic.name for topic in marker.topics)
    return f"{'commit' if marker.transaction_result else 'abort'} marker for {topics}"


def _last_epochs(request: Any) -> list[bool]:
    return [part.last_fetched_epoch != NO_EPOCH for topic in request.topics for part in topic.partitions]


def labels(content: Any) -> list[str]:
    data = bytes(content or b"")
    return [label(record, batch) for batch in records.batches(data) for record in records.records(data, batch)]
