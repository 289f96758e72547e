"""What `tidelog up` does once its options are known: run a cluster until it is told to stop, here or in the background.

stdout gets one line, `ready host:port,…`, for programs; everything for people goes to stderr.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidelog.cli.formatting import Column, table_lines
from tidelog.security.added_users import User
from tidelog.shell import control_socket
from tidelog.shell.control_socket import ControlFailed, ControlSocket
from tidelog.shell.secure_folder import ADMIN
from tidelog.shell.supervisor import BrokerRefused, NotReady, Supervisor, print_line

BACKGROUND_LOG = "up.log"
REBALANCE_S = 5
"""How soon a broker leads its partitions again after a restart, in a cluster of `tidelog up`."""

COLUMNS = (Column("broker", 6), Column("address", 0, True), Column("pid", 0, True), Column("log", 0, True))


def up(
    folder: str | Path,
    *,
    brokers: int = 3,
    port: int = 9092,
    overrides: Mapping[str, str] | None = None,
    restart: bool = False,
    secure: bool = False,
    users: Sequence[User] = (),
    verbose: bool = False,
    detach: bool = False,
    console_port: int | None = None,
    quorum: bool = False,
) -> int:
    """Run a cluster until SIGTERM, SIGINT or `tidelog down`; return the exit code. With `detach` return when it is
    ready, and leave it to a process of its own. With `console_port` the web console is served, too."""
    supervisor = Supervisor(
        folder,
        brokers=brokers,
        port=port,
        overrides={**_defaults(brokers), **(overrides or {})},
        restart=restart,
        secure=secure,
        users=users,
        quorum=quorum,
    )
    if not verbose:
        for child in supervisor.children:
            child.log = supervisor.folder / f"{child.folder.name}.log"
    if detach:
        log = supervisor.folder / BACKGROUND_LOG
        return _in_background(lambda started: _run(supervisor, started, console_port), log)
    return _run(supervisor, lambda: None, console_port)


def _defaults(brokers: int) -> dict[str, str]:
    """Options of the brokers that suit a cluster of this size, unless the user sets them."""
    copies = min(3, brokers)
    return {
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(max(1, copies - 1)),
        "leader.imbalance.check.interval.seconds": str(REBALANCE_S),
    }


def _run(supervisor: Supervisor, started: Callable[[], None], console_port: int | None) -> int:
    with stop_signals() as wake_fd:
        try:
            if control_socket.is_served(supervisor.folder):
                raise NotReady(_already_running(supervisor.folder))
            supervisor.start()
        except NotReady as error:
            if not isinstance(error, BrokerRefused) or supervisor.children[0].log:
                print_line(str(error))
            return 1
        try:
            with (
                ControlSocket(supervisor.folder, lambda line: carry_out(supervisor, line)) as control,
                _console(supervisor, console_port) as address,
            ):
                _print_start(supervisor, address)
                started()
                supervisor.watch(wake_fd, {control.fileno(): control.serve})
        except NotReady:
            return 1  # the console has said why
        finally:
            supervisor.stop()
    return 0


def _already_running(folder: Path) -> str:
    return f"A cluster is already running in {folder}; stop it with: tidelog down --data {shlex.quote(str(folder))}"


@contextmanager
def _console(supervisor: Supervisor, port: int | None) -> Iterator[str]:
    """The web console as a process, which ends with this one, and its address; "" without a port. NotReady if it does
    not start."""
    if port is None:
        yield ""
        return
    command = [sys.executable, "-m", "tidelog", "console", "--supervised", "--allow-changes"]
    command += ["--bootstrap", supervisor.bootstrap, "--port", str(port)]
    if supervisor.security is not None:
        command += ["--command-config", str(supervisor.security.client_file)]
    # Its own process group: Ctrl-C in a terminal reaches only this process, which then stops the console.
    with subprocess.Popen(  # noqa: S603 (our own program)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("console "):
                raise NotReady("The console did not start.")
            yield line.split()[1]
        finally:
            process.terminate()


def _print_start(supervisor: Supervisor, console: str) -> None:
    """A table of the brokers, what a secured cluster's clients need, and last the line for programs."""
    rows = [
        (child.number, f"{child.host}:{child.port}", child.pid, child.log or "stderr") for child in supervisor.children
    ]
    lines = table_lines(COLUMNS, rows, "  ")
    if supervisor.security is not None:
        first, file = supervisor.bootstrap.partition(",")[0], supervisor.security.client_file
        lines += [
            f"Options of the user {ADMIN}, for every client: {file}",
            f"Example: tidelog topics --list --bootstrap-server {first} --command-config {shlex.quote(str(file))}",
        ]
    if console:
        lines.append(f"Console: {console}")
    for line in lines:
        print_line(line.rstrip())
    print("ready", supervisor.bootstrap, flush=True)


def carry_out(supervisor: Supervisor, line: str) -> None:
    """Do what a line of the control socket says; ControlFailed says why it cannot be done."""
    if line == control_socket.DOWN:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    action, _, text = line.partition(" ")
    last = len(supervisor.children) - 1
    if not text.isdigit() or int(text) > last:
        numbers = "only broker 0" if last == 0 else f"brokers 0 to {last}"
        raise ControlFailed(f"There is no broker {text}; this cluster has {numbers}.")
    child = supervisor.children[int(text)]
    if action == "start" and child.process is not None:
        raise ControlFailed(f"Broker {child.number} is already running (pid {child.pid}).")
    if action in ("stop", "restart") and child.process is None:
        raise ControlFailed(f"Broker {child.number} is not running.")
    if action in ("stop", "restart"):
        supervisor.stop_broker(child.number)
        print_line(f"broker {child.number} stopped")
    if action in ("start", "restart"):
        supervisor.start_broker(child.number)
        try:
            supervisor.wait_ready()
        except NotReady as error:
            raise ControlFailed(str(error)) from None
        print_line(f"broker {child.number} started (pid {child.pid})")


def _in_background(run: Callable[[Callable[[], None]], int], log: Path) -> int:
    """Call `run` in a process of its own. Return 0 when it has called the function that it is given, which sends its
    further output to `log`, or its exit code when it ends before."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_fd)
        try:
            started = os.read(read_fd, 1)
        except BaseException:
            os.kill(pid, signal.SIGTERM)
            raise
        finally:
            os.close(read_fd)
        return 0 if started else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.setsid()  # neither Ctrl-C nor the end of the terminal reaches it
    os.close(read_fd)

    def started_now() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for fd, to in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
            os.dup2(to, fd)
        os.write(write_fd, b"x")
        os.close(write_fd)

    return run(started_now)


@contextmanager
def stop_signals() -> Iterator[int]:
    """A descriptor that becomes readable when the process is asked to stop."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    # The interpreter itself writes to it: a handler in Python runs only once the system call that follows has ended.
    former = signal.set_wakeup_fd(write_fd)
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield read_fd
    finally:
        signal.set_wakeup_fd(former)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_fd)
        os.close(write_fd)
