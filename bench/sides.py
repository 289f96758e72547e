"""The two sides: clusters of real broker processes on loopback, Tidelog and Apache Kafka, alike but for the program.

Every broker has its own folder below the cluster's, its own process and a free port. Kafka runs in combined mode (each
node is broker and controller) with the heap and JVM flags of its start script; both sides keep all other defaults.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.ports import free_ports
from tidelog.model import INTER_BROKER_LISTENER
from tidelog.shell.supervisor import is_complete, metadata_view

ROOT = Path(__file__).parent.parent
JARS = ROOT / ".cache/kafka"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
READY_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")

JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""What Kafka's start scripts give to every JVM."""


def java(heap: Sequence[str], *command: str) -> list[str]:
    """A command line of Kafka's."""
    (libs,) = JARS.glob("*/libs")
    return ["java", *heap, *JVM_FLAGS, "-cp", f"{libs}/*", *command]


@dataclass
class Side:
    """A cluster of one kind. `start` returns when every broker lists all and a controller leads."""

    folder: Path
    brokers: int
    options: dict[str, str] = field(default_factory=dict)
    """What is not left at its default."""
    keystore: Path | None = None
    """A PEM key store: then each broker has a TLS listener, too."""
    ports: list[int] = field(default_factory=list)
    tls_ports: list[int] = field(default_factory=list)
    processes: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    name = "?"

    def __post_init__(self) -> None:
        ports = free_ports(2 * self.brokers)
        self.ports, self.tls_ports = ports[: self.brokers], ports[self.brokers :]
        for number in range(self.brokers):
            self.home(number).mkdir(parents=True)
        self.prepare()

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def prepare(self) -> None:
        """Write what the brokers need before their first start."""
        raise NotImplementedError

    def command(self, number: int) -> list[str]:
        raise NotImplementedError

    def home(self, number: int) -> Path:
        return self.folder / f"broker-{number}"

    def write_properties(self, number: int, options: dict[str, str]) -> None:
        text = "".join(f"{key}={value}\n" for key, value in options.items())
        (self.home(number) / "server.properties").write_text(text, encoding="utf-8")

    def properties(self, number: int) -> str:
        return str(self.home(number) / "server.properties")

    def data(self, number: int) -> Path:
        """Its log folder."""
        return self.home(number) / "data"

    def internal_topics(self) -> dict[str, str]:
        """One broker cannot hold the three replicas that are the default."""
        return {
            "offsets.topic.replication.factor": str(min(3, self.brokers)),
            "transaction.state.log.replication.factor": str(min(3, self.brokers)),
            "transaction.state.log.min.isr": str(min(2, self.brokers)),
        }

    def listeners(self, number: int) -> str:
        """Those for clients."""
        plain = f"PLAINTEXT://127.0.0.1:{self.ports[number]}"
        return f"{plain},SSL://127.0.0.1:{self.tls_ports[number]}" if self.keystore else plain

    def tls_options(self) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)} if self.keystore else {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def tls_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.tls_ports)

    def start(self) -> None:
        for number in range(self.brokers):
            with (self.home(number) / "out.log").open("ab") as log:
                self.processes[number] = subprocess.Popen(self.command(number), stdout=log, stderr=log)

    def wait_ready(self) -> None:
        """RuntimeError, with the last lines of its log, where a broker ended or is not ready in time."""
        deadline = time.monotonic() + READY_S
        wanted = frozenset(range(self.brokers))
        for number, port in enumerate(self.ports):
            while not is_complete(metadata_view("127.0.0.1", port), wanted):
                ended = self.processes[number].poll() is not None
                if ended or time.monotonic() > deadline:
                    log = (self.home(number) / "out.log").read_text(encoding="utf-8", errors="replace")
                    raise RuntimeError(f"{self.name} broker {number} is not ready: {log[-2000:]}")
                time.sleep(0.05)

    def stop(self) -> None:
        """At once and by force: what was measured is measured."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def cpu_seconds(self) -> float:
        """User and system time of all brokers so far."""
        return sum(_cpu_seconds(process.pid) for process in self.processes.values())

    def resident_mb(self) -> list[float]:
        return [_resident_mb(process.pid) for process in self.processes.values()]


class Tidelog(Side):
    name = "Tidelog"

    def prepare(self) -> None:
        for number in range(self.brokers):
            self.write_properties(
                number,
                {
                    "node.id": str(number),
                    "listeners": f"{self.listeners(number)},{INTER_BROKER_LISTENER}://127.0.0.1:0",
                    "log.dirs": str(self.data(number)),
                    "metadata.store": f"sqlite:{self.folder}/meta.sqlite",
                    **self.internal_topics(),
                    **self.tls_options(),
                    **self.options,
                },
            )

    def command(self, number: int) -> list[str]:
        return [str(Path(sys.executable).with_name("tidelog")), "broker", self.properties(number)]


class OfControllers(Side):
    """Its nodes are broker and controller at once."""

    def prepare(self) -> None:
        controllers = free_ports(self.brokers)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers))
        for number in range(self.brokers):
            self.write_properties(
                number,
                {
                    "process.roles": "broker,controller",
                    "node.id": str(number),
                    "controller.quorum.voters": voters,
                    "listeners": f"{self.listeners(number)},CONTROLLER://127.0.0.1:{controllers[number]}",
                    "controller.listener.names": "CONTROLLER",
                    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
                    "log.dirs": str(self.data(number)),
                    **self.internal_topics(),
                    **self.tls_options(),
                    **self.options,
                },
            )
        for number in range(self.brokers):
            self.format("format", "-t", CLUSTER_ID, "-c", self.properties(number))

    def format(self, *arguments: str) -> None:
        """Run the storage tool."""
        raise NotImplementedError


class QuorumTidelog(OfControllers, Tidelog):
    """Tidelog without another store."""

    def write_properties(self, number: int, options: dict[str, str]) -> None:
        given = f"{options['listeners']},{INTER_BROKER_LISTENER}://127.0.0.1:0"
        protocols = f"{options['listener.security.protocol.map']},{INTER_BROKER_LISTENER}:PLAINTEXT"
        super().write_properties(number, {**options, "listeners": given, "listener.security.protocol.map": protocols})

    def format(self, *arguments: str) -> None:
        tool = str(Path(sys.executable).with_name("tidelog"))
        subprocess.run([tool, "storage", *arguments], check=True, capture_output=True, timeout=READY_S)


class Kafka(OfControllers):
    name = "Kafka"

    def format(self, *arguments: str) -> None:
        subprocess.run(
            java(["-Xmx256M"], "kafka.tools.StorageTool", *arguments), check=True, capture_output=True, timeout=READY_S
        )

    def command(self, number: int) -> list[str]:
        return java(["-Xmx1G", "-Xms1G"], "kafka.Kafka", self.properties(number))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
