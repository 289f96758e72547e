"""An administrator's process: sends any request to any broker and calls back with the response."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tidelog.client.admin import ANY, Target, alter_configs_request
from tidelog.client.admin import Admin as AdminMachine
from tidelog.client.options import AdminOptions
from tidelog.config.alter import TOPIC
from tidelog.effects import CONTROLLER
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.clients.process import Process
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

Answered = Callable[[Any], None]
"""Takes the response, or None if there was none in time."""

HOPELESS = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)
AGAIN = (100 * MILLI, 300 * MILLI)
ANSWER_MS = 8_000
NEWEST = 32_767
"""The newest version that both sides support."""


class Admin:
    """`created` are the topics whose creation was requested here and that exist."""

    def __init__(self, world: World, name: str) -> None:
        options = AdminOptions(client_id=name, request_timeout_ms=4_000)
        self.process = Process(
            world, name, lambda bootstrap, entropy: AdminMachine(bootstrap, options, entropy), self._turned
        )
        self.created: set[str] = set()
        self._answered: dict[int, Answered] = {}

    def __repr__(self) -> str:
        return f"<admin {self.process.name}, {len(self._answered)} unanswered>"

    def ask(
        self, request: Any, target: Target, answered: Answered, *, retries: bool = True, newest: int = NEWEST
    ) -> None:
        """Send a request; `answered` is called exactly once.

        Without `retries` a fault ends the request at once. `newest` is the highest version to use.
        """
        machine, now = self.process.machine, self.process.now()
        ticket, effects = machine.ask(request, target, now, timeout_ms=ANSWER_MS, newest=newest, retries=retries)
        self._answered[ticket] = answered
        self.process.carry_out(effects)

    def _turned(self) -> None:
        for done in self.process.machine.take_results():
            answered = self._answered.pop(done.ticket)
            response = None if done.error else done.value
            self.process.note("answer", type(response).__name__ if response is not None else done.error.name)
            self.process.after(0, partial(answered, response))

    def configure(self, topic: str, option: str, value: str, answered: Answered, target: Target = ANY) -> None:
        self.ask(alter_configs_request(TOPIC, topic, [(option, value)]), target, answered)

    def elect(self, how: int, names: Sequence[TopicPartition] | None, answered: Answered) -> None:
        """Elect leaders. `how` is PREFERRED or UNCLEAN; None stands for all partitions."""
        wanted = [TopicPartitions(topic=name.topic, partitions=[name.partition]) for name in names or ()]
        partitions = None if names is None else wanted
        request = ElectLeadersRequest(election_type=how, topic_partitions=partitions, timeout_ms=2_000)
        self.ask(request, CONTROLLER, answered)

    def create(self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Create the topic; retry until it exists."""
        given = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        requested = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas, configs=given)

        def answered(response: Any) -> None:
            code = response.topics[0].error_code if response is not None else ErrorCode.NETWORK_EXCEPTION
            self.process.world.count(f"create: {ErrorCode(code).name}")
            assert code not in HOPELESS, f"{topic} cannot be created: {response}"
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self.created.add(topic)
            else:
                self.process.later(AGAIN, partial(self.create, topic, partitions, replicas, configs))

        self.ask(CreateTopicsRequest(topics=[requested], timeout_ms=4_000), CONTROLLER, answered)
