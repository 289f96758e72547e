"""Brokers that start and stop, and restart with what their disks kept."""

from collections.abc import Callable

from tidelog.lab.language import Command, Verb
from tidelog.lab.play import CommandEntry, Play, command_entry
from tidelog.lab.stage import CONTROLLER
from tidelog.sim.host import Host

SESSION_TERM = 10_000_000
NOTICE = 10_000


def cluster(play: Play, command: Command) -> None:
    if len(set(command.words)) < len(command.words) or CONTROLLER in command.words:
        raise play.impossible(f"expected a name for each broker, none of them twice, and none `{CONTROLLER}`.")
    play.open(command.words, command.options)


def kill(play: Play, command: Command) -> None:
    """Kill the processes; their page caches stay, their sessions end at once."""
    _end(play, command, play.stage.world.kill, NOTICE)


def power(play: Play, command: Command) -> None:
    """Cut the power of the machines; unsynced data are lost, their sessions end after their term."""
    _end(play, command, play.stage.world.lose_power, SESSION_TERM)


def _end(play: Play, command: Command, end: Callable[[Host], None], noticed_after: int) -> None:
    with play.stage.controller_paused():
        for name in command.words:
            end(play.stage.hosts[play.running(name)])
        play.run(noticed_after)
    play.run()


def start(play: Play, command: Command) -> None:
    for name in command.words:
        play.stage.hosts[play.down(name)].start()
        play.run()


def stop(play: Play, command: Command) -> None:
    """Stop cleanly: leadership is handed over, the log is flushed and closed."""
    for name in command.words:
        host = play.stage.hosts[play.running(name)]
        play.stage.world.stop(host)
        if not play.stage.until(lambda host=host: not host.up):  # type: ignore[misc]
            raise play.impossible(f"{name} does not come to an end; expected a stop within 20 s.")
    play.run()


def restart(play: Play, command: Command) -> None:
    power = command.options.get("power", "")
    if power not in ("", "lost"):
        raise play.impossible(f"expected power=lost, not power={power}.")
    for name in command.words:
        play.stage.bounce(play.running(name), power=bool(power))
        play.run()


def pause(play: Play, command: Command) -> None:
    for name in command.words:
        life = play.stage.hosts[play.running(name)].life
        assert life is not None
        if life.paused:
            raise play.impossible(f"{name} is paused already; expected a broker that goes on.")
        life.pause()
    play.run()


def resume(play: Play, command: Command) -> None:
    for name in command.words:
        host = play.stage.hosts[play.running(name)]
        if host.running:
            raise play.impossible(f"{name} is not paused; expected `pause {name}` before.")
        play.stage.world.resume(host)
    play.run()


def expire(play: Play, command: Command) -> None:
    """Expire the broker's session although it runs: the controller considers it dead."""
    for name in command.words:
        play.stage.world.lose_session(play.stage.hosts[play.running(name)])
    play.run()


def option(play: Play, command: Command) -> None:
    """Set options of brokers that start from now on."""
    play.check_options(command.options)
    play.stage.options.update(command.options)


def sync(play: Play, command: Command) -> None:
    for name in command.words:
        play.stage.write_back(play.running(name))


def erase(play: Play, command: Command) -> None:
    for name in command.words:
        play.stage.hosts[play.down(name)].disk.erase()


COMMANDS: dict[str, CommandEntry] = {
    "cluster": CommandEntry(Verb("cluster BROKER… [option=value …]", 1, None, None), cluster),
    "kill": command_entry("kill BROKER…", kill, 1, None),
    "power": command_entry("power BROKER…", power, 1, None),
    "start": command_entry("start BROKER…", start, 1, None),
    "stop": command_entry("stop BROKER…", stop, 1, None),
    "restart": command_entry("restart BROKER… [power=lost]", restart, 1, None, "power"),
    "pause": command_entry("pause BROKER…", pause, 1, None),
    "resume": command_entry("resume BROKER…", resume, 1, None),
    "expire": command_entry("expire BROKER…", expire, 1, None),
    "option": CommandEntry(Verb("option option=value …", 0, 0, None), option),
    "sync": command_entry("sync BROKER…", sync, 1, None),
    "erase": command_entry("erase BROKER…", erase, 1, None),
}
