"""What a story can do: one table of commands, a file for each kind.

A command takes the play and its words, does what it says, and lets the world go on for a moment; what happened
meanwhile is in `Play.told`. What cannot be done (kill the dead, start the living) is refused with its line.
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

VERBS = {name: entry.verb for name, entry in COMMANDS.items()}
