"""Real ZooKeeper servers for tests: one, or an ensemble, each a Java process in a folder of its own."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests import jvm
from tests.ports import free_ports
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120.0
TICK_MS = 200
"""The servers' unit of time: sessions may be as short as two of it."""


def libs() -> Path:
    """The folder of ZooKeeper's jars: `scripts/setup test` brings it."""
    if given := os.environ.get("TIDELOG_ZOOKEEPER_LIBS"):
        return Path(given)
    version = re.search(r"^  <version>(.*)</version>", (ROOT / "kafka/zookeeper.xml").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    return ROOT / ".cache" / "zookeeper" / version[1] / "libs"


@dataclass
class Server:
    """One server. `peers` are the lines of an ensemble, `more` other lines of its file; `prefix` goes before the command
    line, `properties` are Java's."""

    folder: Path
    port: int
    host: str = "127.0.0.1"
    number: int = 1
    peers: Sequence[str] = ()
    prefix: Sequence[str] = ()
    more: Sequence[str] = ()
    properties: Sequence[str] = ()
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        assert any(libs().glob("zookeeper-*.jar")), f"ZooKeeper's jars are not in {libs()}: run scripts/setup test"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "myid").write_text(f"{self.number}\n", encoding="ascii")
        lines = [
            f"dataDir={self.folder}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.host}",
            f"tickTime={TICK_MS}",
            "maxSessionTimeout=60000",
            "maxClientCnxns=0",
            "initLimit=50",
            "syncLimit=25",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            *self.peers,
            *self.more,
        ]
        config = self.folder / "zoo.cfg"
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = ("-Xmx128m", *jvm.SHORT)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, "java", *options, *self.properties, "-cp", f"{libs()}/*", main, str(config)],
                stdout=log,
                stderr=log,
            )

    def word(self, word: str) -> str:
        """The answer to one of the four-letter words; "" where the server is not there."""
        try:
            with socket.create_connection((self.host, self.port), 1) as sock:
                sock.sendall(word.encode())
                answer = b""
                while part := sock.recv(4096):
                    answer += part
        except OSError:
            return ""
        return answer.decode()

    @property
    def mode(self) -> str:
        """standalone, leader or follower; "" while it does not serve."""
        found = re.search(r"^Mode: (\w+)", self.word("srvr"), re.MULTILINE)
        return found[1] if found else ""

    def wait(self) -> None:
        log = self.folder / "log"

        def serves() -> str:
            assert self.process is not None
            assert self.process.poll() is None, f"ZooKeeper ended: {log.read_text('utf-8', 'replace')[-2000:]}"
            return self.mode

        wait_for(serves, f"ZooKeeper to serve: {log}", PATIENCE_S)

    def stop(self) -> None:
        """As a crash: what is in its log is there at the next start."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


class Ensemble:
    """`count` servers that elect a leader among them; one is standalone. Use as a context: it serves inside."""

    def __init__(self, folder: Path, count: int = 1) -> None:
        ports = free_ports(3 * count)
        quorum = zip(ports[count : 2 * count], ports[2 * count :], strict=True)
        peers = [f"server.{number}=127.0.0.1:{one}:{two}" for number, (one, two) in enumerate(quorum, 1)]
        self.servers = [
            Server(folder / f"zookeeper-{number}", port, number=number, peers=peers if count > 1 else ())
            for number, port in enumerate(ports[:count], 1)
        ]

    def __repr__(self) -> str:
        return f"Ensemble({self.servers})"

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.stop()

    @property
    def hosts(self) -> str:
        return ",".join(server.address for server in self.servers)

    @property
    def leader(self) -> Server:
        """Once there is one that says so."""

        def leading() -> Server | None:
            return next((each for each in self.servers if each.mode in {"leader", "standalone"}), None)

        found = wait_for(leading, f"a leader of {self}", PATIENCE_S)
        assert found is not None
        return found
