"""What a story of brokers can do: one table of commands, a file for each kind.

A command gets the play and its words, carries them out, and lets the world continue for a moment; what happened
meanwhile is in `Play.told`. An impossible command (killing a dead broker, starting a running one) is refused with its
line.
"""

from tidelog.lab.commands import application, brokers, clients, inspection, messages, topics
from tidelog.lab.play import CommandEntry

COMMANDS: dict[str, CommandEntry] = {
    **brokers.COMMANDS,
    **topics.COMMANDS,
    **clients.COMMANDS,
    **application.COMMANDS,
    **messages.COMMANDS,
    **inspection.COMMANDS,
}
