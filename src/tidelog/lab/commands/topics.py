"""The story's topic `t`, its options, its elections, and its end."""

from tidelog.client.admin import alter_configs_request
from tidelog.config.alter import TOPIC
from tidelog.errors import ErrorCode
from tidelog.lab import requests
from tidelog.lab.language import Command, Verb
from tidelog.lab.play import CommandEntry, Play, command_entry
from tidelog.lab.stage import CONTROLLER
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)

TIMEOUT_MS = 5_000
ELECTIONS = {"preferred": 0, "unclean": 1}
CANCEL = "cancel"
OPTIONS = {"min.insync.replicas": "min.insync.replicas", "unclean": "unclean.leader.election.enable"}
"""Knobs that are options of the topic."""


def create(play: Play, command: Command) -> None:
    brokers = [play.broker(name) for name in command.words]
    given = {option: play.knobs[knob] for knob, option in OPTIONS.items() if knob in play.knobs} | command.options
    play.captions.topic_id = make(play, play.name.topic, brokers, given)
    for name in brokers:
        if play.stage.hosts[name].up:
            play.stage.write_back(name)


def make(play: Play, topic: str, brokers: list[str], options: dict[str, str]) -> bytes:
    """Create a topic with one partition on these brokers; return its ID."""
    ids = [play.stage.hosts[name].broker_id for name in brokers]
    requested = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=ids)],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in options.items()],
    )
    request = CreateTopicsRequest(topics=[requested], timeout_ms=TIMEOUT_MS)
    answer = play.answer(CONTROLLER, requests.CREATE_TOPICS, request)
    result = answer.topics[0] if answer is not None else None
    if result is None or result.error_code:
        reason = result.error_message or ErrorCode(result.error_code).name if result else "no answer"
        raise play.impossible(f"the topic cannot be made: {reason}")
    play.run()
    made: bytes = result.topic_id
    return made


def alter(play: Play, command: Command) -> None:
    request = alter_configs_request(TOPIC, play.name.topic, command.options.items())
    answer = play.answer(CONTROLLER, requests.ALTER_CONFIGS, request)
    result = answer.responses[0] if answer is not None else None
    if result is None or result.error_code:
        raise play.impossible(f"refused: {result.error_message if result else 'no answer'}")
    play.run()


def elect(play: Play, command: Command) -> None:
    kind = ELECTIONS.get(command.words[0])
    if kind is None:
        raise play.impossible(f"expected `elect preferred` or `elect unclean`, not {command.words[0]!r}.")
    requested = TopicPartitions(topic=play.name.topic, partitions=[0])
    request = ElectLeadersRequest(election_type=kind, topic_partitions=[requested], timeout_ms=TIMEOUT_MS)
    answer = play.answer(CONTROLLER, requests.ELECT_LEADERS, request)
    results = answer.replica_election_results if answer is not None else []
    code = results[0].partition_result[0].error_code if results else ErrorCode.REQUEST_TIMED_OUT
    if code:
        play.told.append(f"the election is refused with {ErrorCode(code).name}")
    play.run()


def reassign(play: Play, command: Command) -> None:
    names = None if command.words == [CANCEL] else command.words
    ids = None if names is None else [play.stage.hosts[play.broker(name)].broker_id for name in names]
    requested = ReassignableTopic(name=play.name.topic, partitions=[ReassignablePartition(replicas=ids)])
    request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[requested])
    answer = play.answer(CONTROLLER, requests.ALTER_REASSIGNMENTS, request)
    code = answer.error_code or answer.responses[0].partitions[0].error_code if answer is not None else -1
    if code:
        raise play.impossible(f"the move is refused with {ErrorCode(code).name}")
    play.run()


def delete(play: Play, _command: Command) -> None:
    request = DeleteTopicsRequest(topic_names=[play.name.topic], timeout_ms=TIMEOUT_MS)
    answer = play.answer(CONTROLLER, requests.DELETE_TOPICS, request)
    code = answer.responses[0].error_code if answer is not None else ErrorCode.NETWORK_EXCEPTION
    play.told.append(f"the deletion is answered with {ErrorCode(code).name}")
    play.run()


COMMANDS: dict[str, CommandEntry] = {
    "topic": CommandEntry(Verb("topic BROKER… [option=value …]", 1, None, None), create),
    "config": CommandEntry(Verb("config option=value …", 0, 0, None), alter),
    "elect": command_entry("elect preferred|unclean", elect, 1, 1),
    "reassign": command_entry("reassign BROKER…|cancel", reassign, 1, None),
    "delete": command_entry("delete", delete),
}
