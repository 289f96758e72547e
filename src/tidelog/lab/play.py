"""A story under way: its stage, what its clients were answered, and the messages since the last step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.effects import Event
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.lab.captions import Captions
from tidelog.lab.language import Command, Story, StoryError, Verb
from tidelog.lab.playback import Message
from tidelog.lab.post import ANSWER, FOLLOWERS_QUESTIONS, Letter, Post, Rule
from tidelog.lab.requests import PendingRequest, StoryClient
from tidelog.lab.stage import CONTROLLER, Stage
from tidelog.model import TopicPartition
from tidelog.partition.truncation import GENERATIONS, KIP_320

TOPIC = TopicPartition("t", 0)
NO_ANSWER = "no answer"
NOT_AWAITED = "not awaited"
WAITING = "waiting"
ACKNOWLEDGED = "acknowledged"
_GROUP_REQUESTS = (
    "OffsetCommit",
    "OffsetFetch",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "TxnOffsetCommit",
)
_TRANSACTION_REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers")
COORDINATORS = {
    **dict.fromkeys(_GROUP_REQUESTS, "group coordinator"),
    **dict.fromkeys(_TRANSACTION_REQUESTS, "transaction coordinator"),
}
"""What the recipient of a request is to its sender, by the kind of request."""


@dataclass(slots=True, eq=False)
class Sent:
    """One produce request. `outcome`: waiting, acknowledged, not awaited (acks=0), no answer, or an error's name."""

    label: str
    acks: str
    question: PendingRequest
    content: bytes
    outcome: str = WAITING
    offset: int = -1


@dataclass(slots=True)
class Application:
    """Reads with a committed position: `done` is what it has processed, in order, over all its lives.

    `identity`: the producer ID, epoch and next sequence of its transactions in this life.
    """

    done: list[str] = field(default_factory=list)
    position: int = 0
    identity: tuple[int, int, int] | None = None
    killed: bool = False


class Play:
    """What commands work on. `told` collects the lines of the current command, `messages` those of the step."""

    def __init__(self, story: Story, knobs: dict[str, str]) -> None:
        self.story = story
        self.knobs = knobs
        self.command: Command | None = None
        self.name = TOPIC
        self.shown = TOPIC
        """The partition that is shown: the story's, or one of an internal topic."""
        self.sent: list[Sent] = []
        self.read: dict[int, str] = {}
        """The record that consumers received at each offset, the first time."""
        self.changed: dict[int, str] = {}
        """A sentence for every offset where consumers read another record than before."""
        self.last_read: list[str] = []
        self.application = Application()
        self.producers: dict[str, tuple[int, int, int]] = {}
        self.messages: list[Message] = []
        self.told: list[str] = []
        self.passed: list[Letter] = []
        self.begun = 0
        self._stage: Stage | None = None
        self._captions: Captions | None = None
        self._client: StoryClient | None = None

    def __repr__(self) -> str:
        return f"Play({self.story.name}, {self._stage!r})"

    def impossible(self, sentence: str) -> StoryError:
        return self.story.error(self.command.line if self.command else 0, sentence)

    # The stage.

    def open(self, names: list[str], options: dict[str, str]) -> None:
        if self._stage is not None:
            raise self.impossible("the cluster stands already; a story has one.")
        self.check_options(options)
        generation = GENERATIONS.get(self.knobs.get("truncation", ""), KIP_320)
        self._stage = Stage(
            names,
            options,
            generation,
            has_elr=self.knobs.get("elr") == "on",
            happened=self._happened,
            on_message=self._on_message,
        )
        self._captions = Captions(self._stage, self.name)
        self._client = StoryClient(self._stage.post, "client")
        self._stage.open()
        self.messages.clear()
        self.begun = self._stage.world.micros

    def check_options(self, options: dict[str, str]) -> None:
        """Check a broker's options, by Kafka's names."""
        unknown = BrokerConfig.unknown(options)
        if unknown:
            raise self.impossible(f"there is no option {unknown[0]}; expected one of a broker's.")
        try:
            BrokerConfig.validate(options)
        except InvalidOption as error:
            raise self.impossible(str(error)) from error

    @property
    def stage(self) -> Stage:
        if self._stage is None:
            raise self.impossible("there is no cluster yet; expected `cluster A B` first.")
        return self._stage

    @property
    def post(self) -> Post:
        return self.stage.post

    def until(self, condition: Callable[[], bool], micros: int) -> bool:
        return self.stage.until(condition, micros)

    @property
    def captions(self) -> Captions:
        assert self._captions is not None
        return self._captions

    @property
    def has_topic(self) -> bool:
        return self._captions is not None and bool(self._captions.topic_id)

    @property
    def has_stage(self) -> bool:
        return self._stage is not None

    @property
    def millis(self) -> float:
        return round((self.stage.world.micros - self.begun) / 1000, 1) if self._stage else 0.0

    def _happened(self, who: str, event: Event) -> None:
        if self._captions is not None:
            line = self._captions.event(who, event)
            if line and line not in self.told:
                self.told.append(line)

    def _on_message(self, letter: Letter, delivered: bool) -> None:
        if delivered:
            self.passed.append(letter)
        text = self.captions.letter(letter) if self._captions is not None else ""
        if not text or self._is_noise(letter, text):
            return
        source, target = (self._shown(name, letter.kind) for name in (letter.source, letter.target))
        self.messages.append(Message(source, target, letter.kind, text, delivered))

    def _is_noise(self, letter: Letter, text: str) -> bool:
        """While replication goes by itself, fetches that find nothing; and what was asked of a leader that is none any
        more, before its follower heard of that."""
        if letter.kind.removesuffix(ANSWER) != "Fetch" or "client" in (letter.source, letter.target):
            return False
        way = letter.end if letter.kind == "Fetch" else letter.end.other
        follower, leader = self.stage.name_of(way.party.name), self.stage.name_of(way.other.party.name)
        partition = self.stage.partition(follower, self.name)
        if partition is None or self.stage.names.get(partition.leader_id) != leader:
            return True
        is_idle = text == "nothing new" or (letter.kind == "Fetch" and not letter.message.topics)
        return is_idle and not self.stage.post.by_hand

    # Time.

    def run(self, micros: int | None = None) -> None:
        """Let the world continue, and collect what clients were answered."""
        if micros is None:
            self.stage.run()
        else:
            self.stage.run(micros)
        self.collect()

    def collect(self) -> None:
        for sent in self.sent:
            if sent.outcome == WAITING and sent.question.over:
                self._answered(sent, sent.question.answer)

    def _answered(self, sent: Sent, answer: Any) -> None:
        if sent.acks == "0":
            sent.outcome = NOT_AWAITED
        elif answer is None:
            sent.outcome = NO_ANSWER
            self.told.append(f"{sent.label}: no answer, nobody knows")
        else:
            result = answer.responses[0].partition_responses[0]
            sent.outcome = ErrorCode(result.error_code).name if result.error_code else ACKNOWLEDGED
            sent.offset = result.base_offset
            refused = f"refused with {sent.outcome}" if result.error_code else f"acknowledged at {sent.offset}"
            self.told.append(f"{sent.label}: {refused}")

    def _shown(self, party: str, kind: str) -> str:
        """The party's name. The broker beside those of the story is also the coordinator of groups and transactions; a
        message says as what it was meant."""
        name = self.stage.name_of(party)
        return COORDINATORS.get(kind.removesuffix(ANSWER), name) if name == CONTROLLER else name

    # Brokers.

    def broker(self, name: str) -> str:
        """Return a broker of the story, by its name."""
        if name not in self.stage.brokers:
            raise self.impossible(f"there is no broker {name}; expected one of: {', '.join(self.stage.brokers)}.")
        return name

    def party(self, name: str) -> str:
        """Return the name on the network of a broker, the controller, or the client."""
        if name == "client":
            return name
        if name not in self.stage.hosts:
            known = ", ".join((*self.stage.hosts, "client"))
            raise self.impossible(f"there is no {name}; expected one of: {known}.")
        return self.stage.hosts[name].name

    def running(self, name: str) -> str:
        if not self.stage.hosts[self.broker(name)].up:
            alive = [broker for broker in self.stage.brokers if self.stage.hosts[broker].up]
            raise self.impossible(f"{name} is down; expected a broker that runs: {', '.join(alive) or 'none does'}.")
        return name

    def down(self, name: str) -> str:
        if self.stage.hosts[self.broker(name)].up:
            raise self.impossible(f"{name} runs already; expected a broker that is down.")
        return name

    def leader(self) -> str:
        leader = self.stage.leader(self.name)
        if not leader:
            raise self.impossible("nobody leads the partition; expected a leader for this.")
        return leader

    # Clients.

    def ask(self, broker: str, key: int, request: Any) -> PendingRequest:
        assert self._client is not None
        return self.stage.ask(self._client, broker, key, request)

    def answer(self, broker: str, key: int, request: Any, *, seconds: int = 10) -> Any:
        """Send a request and return the response; None if there is none."""
        question = self.ask(broker, key, request)
        self.stage.until(lambda: question.over, seconds * 1_000_000)
        return question.answer

    def questions(self, broker: str) -> list[Letter]:
        """Return the requests from the follower to its leader that are held."""
        held = self.stage.post.waiting(self.stage.hosts[broker].name, kinds=FOLLOWERS_QUESTIONS)
        partition = self.stage.partition(broker, self.name)
        leader = self.stage.names.get(partition.leader_id if partition is not None else -1)
        rules = self.stage.post.rules
        return [
            letter
            for letter in held
            if self.stage.name_of(letter.target) == leader and not any(rule.names(letter) for rule in rules)
        ]


class Mailbox(Protocol):
    """Messages that can be held on their way, and ways that can be blocked, between parties as `Mailing.party` has
    them."""

    rules: list[Rule]

    def waiting(self, source: str = "", target: str = "", kinds: frozenset[str] = frozenset()) -> Sequence[Any]: ...

    def deliver(self, letter: Any) -> None: ...

    def lose(self, letter: Any) -> None: ...

    def let_go(self) -> None: ...

    def block(self, source: str, target: str) -> None: ...

    def heal(self) -> None: ...


class Mailing(Protocol):
    """A play whose messages can be held: one of brokers, or one of voters."""

    @property
    def post(self) -> Mailbox: ...

    def impossible(self, sentence: str) -> StoryError: ...

    def party(self, name: str) -> str: ...

    def run(self, micros: int | None = None) -> None: ...

    def until(self, condition: Callable[[], bool], micros: int) -> bool: ...


RunCommand = Callable[[Any, Command], None]
"""Carries a command out on the play of its kind of story."""


class CommandEntry(NamedTuple):
    """How the command is written, and what carries it out."""

    verb: Verb
    run: RunCommand


def command_entry(usage: str, run: RunCommand, least: int = 0, most: int | None = 0, *options: str) -> CommandEntry:
    return CommandEntry(Verb(usage, least, most, frozenset(options)), run)
