"""The kinds of stories, by what stands on the stage: brokers, or the voters of a metadata quorum.

The first command says which: `cluster` or `voters`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tidelog.lab import verdict, views
from tidelog.lab.commands import COMMANDS
from tidelog.lab.language import Story
from tidelog.lab.play import CommandEntry, Play
from tidelog.lab.playback import ReplicaView, Verdict
from tidelog.lab.voters import commands as voter_commands
from tidelog.lab.voters import verdict as voter_verdict
from tidelog.lab.voters import views as voter_views
from tidelog.lab.voters.play import VoterPlay


class Kind(NamedTuple):
    """What plays a story of this kind, and what uses the result."""

    name: str
    play: Callable[[Story, dict[str, str]], Any]
    commands: Mapping[str, CommandEntry]
    views: Callable[[Any], list[ReplicaView]]
    verdict: Callable[[Any], Verdict]


BROKERS = Kind("brokers", Play, COMMANDS, lambda play: views.replicas(play.stage, play.shown), verdict.verdict)
VOTERS = Kind(
    "voters",
    VoterPlay,
    voter_commands.COMMANDS,
    lambda play: voter_views.voters(play.world),
    voter_verdict.verdict,
)
VERBS = {name: entry.verb for kind in (VOTERS, BROKERS) for name, entry in kind.commands.items()}
"""What a text may have, of either kind."""


def kind_of(story: Story) -> Kind:
    """Return the kind of the story; StoryError at a command that it does not have."""
    written = [command for step in story.steps for command in step.commands]
    kind = VOTERS if any(command.verb == "voters" for command in written) else BROKERS
    for command in written:
        if command.verb not in kind.commands:
            raise story.error(command.line, f"`{command.verb}` is no command of a story of {kind.name}.")
    return kind
