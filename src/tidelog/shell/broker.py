"""One broker process: `run_broker`, and `python -m tidelog.shell.broker FILE [key=value…]`.

If the broker cannot start, the process prints one line to stderr and exits with status 1.
"""

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tidelog.config import properties
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.model import Endpoint
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.hosting import HostedBroker
from tidelog.shell.log_dir_lock import CannotStart

EXIT_REFUSED = 1
COLLECT_EVERY_S = 600.0
NEVER = 2**31 - 1
SWITCH_S = 0.0005
"""How long a thread that computes may keep the event loop from going on after each of its system calls: a tenth of
Python's default."""
SUPERVISED = "--supervised"
"""With this flag stdin is a pipe; its end means that the supervisor has died."""


class BrokerProcess:
    """A broker with a process to itself. `ready` is called with the bound listeners once it serves."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        ready: Callable[[Sequence[Endpoint]], None] = lambda _: None,
        watch_stdin: bool = False,
    ) -> None:
        self.config = config
        self.logger = EventLogger(f"broker-{config.node_id}", as_json=config.log_format == "json")
        self._ready = ready
        self._watch_stdin = watch_stdin
        self._signals = 0

    def __repr__(self) -> str:
        return f"BrokerProcess({self.config.node_id})"

    def run(self) -> int:
        """Serve until stopped; return the exit code. CannotStart if it cannot start."""
        _raise_open_files()
        sys.setswitchinterval(SWITCH_S)
        return HostedBroker(self.config, self.logger, self._on_open).run()

    def _on_open(self, hosted: HostedBroker) -> None:
        self._handle_signals(hosted)
        self._log_options_without_effect()
        self._ready(hosted.endpoints)
        self._collect_garbage(hosted)
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], NEVER)

    def _collect_garbage(self, hosted: HostedBroker) -> None:
        """Look for cycles among all objects now and then, and not whenever there are a quarter more, as Python does: a
        request with many entries would cause several such searches, each of a tenth of a second. Reference counts
        free nearly everything, and cycles of short-lived objects are found as always."""
        gc.collect()
        hosted.loop.call_later(COLLECT_EVERY_S, self._collect_garbage, hosted)

    def _log_options_without_effect(self) -> None:
        """Log options without effect: those of Kafka that Tidelog does not need, and unknown names."""
        given = self.config.properties
        for level, kind, names in (
            ("info", "options.ignored", BrokerConfig.ignored(given)),
            ("warning", "options.unknown", BrokerConfig.unknown(given)),
        ):
            if names:
                self.logger.write(level, kind, {"names": ",".join(names)})

    def _handle_signals(self, hosted: HostedBroker) -> None:
        """The first signal stops the broker cleanly, the second one at once."""
        loop, server = hosted.loop, hosted.server
        assert server is not None

        def stop(reason: str) -> None:
            self._signals += 1
            self.logger.write("info", "broker.stopping", {"reason": reason})
            if self._signals == 1:
                hosted.stop_now()
            else:
                server.exit_code = EXIT_REFUSED
                loop.stop()

        def read_stdin() -> None:
            if not os.read(0, 4096):
                loop.remove_reader(0)
                stop("the supervisor is gone")

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, signal.Signals(number).name)
        if self._watch_stdin:
            loop.add_reader(0, read_stdin)


def run_broker(
    config: BrokerConfig,
    *,
    ready: Callable[[Sequence[Endpoint]], None] = lambda _: None,
    watch_stdin: bool = False,
) -> int:
    """Run a broker in this process until it is stopped; return the exit code. If it cannot start, print why to
    stderr."""
    try:
        return BrokerProcess(config, ready=ready, watch_stdin=watch_stdin).run()
    except (CannotStart, InvalidOption) as refusal:
        sys.stderr.write(f"{refusal}\n")
        return EXIT_REFUSED


def load_config(file: str | Path, overrides: Sequence[str] = ()) -> BrokerConfig:
    """Load a server.properties file with `key=value` overrides; InvalidOption for an invalid value."""
    given = properties.parse(Path(file).read_text(encoding="utf-8"))
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InvalidOption(f"an override must be key=value, not {override!r}")
        given[key.strip()] = value.strip()
    BrokerConfig.validate(given)
    config = BrokerConfig(given)
    folders = [str(Path(folder).absolute()) for folder in config.folders]
    if folders != config.folders:
        config = BrokerConfig({**given, "log.dirs" if config.log_dirs else "log.dir": ",".join(folders)})
    if config.node_id < 0:
        raise InvalidOption(f"node.id is missing in {file}: set it to the broker's number in the cluster")
    return config


def _raise_open_files() -> None:
    """Raise the limit of open files: thousands of partitions need thousands of files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(endpoints: Sequence[Endpoint]) -> None:
    """Print the listeners as one line on stdout, for the parent process."""
    print("listening", ",".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints), flush=True)  # noqa: T201


def main(arguments: Sequence[str]) -> int:
    supervised = SUPERVISED in arguments
    file, *overrides = [argument for argument in arguments if argument != SUPERVISED]
    try:
        config = load_config(file, overrides)
    except (InvalidOption, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    return run_broker(config, ready=_announce, watch_stdin=supervised)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
