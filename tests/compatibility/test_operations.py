"""docs/operations.md, followed literally: each command in its order, on hosts that are network namespaces.

The test stands for systemd, which runs the unit's command, and leaves out what changes the machine: users and packages.
Names of hosts and folders are replaced by those of the test. A producer writes from the moment the cluster serves, and
in the end every record that was acknowledged is there once.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest

from tests.compatibility.support import Load, Topic, assert_exact, stored
from tests.compatibility.test_several_hosts import PROMPT, as_root
from tests.waiting import PATIENCE_S, wait_for
from tidelog.check.chaos.machine import Network

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
UNIT = ROOT / "packaging" / "systemd" / "tidelog.service"
HOSTS = (1, 2, 3, 4)
EACH = (1, 2, 3)
LINE = re.compile(r"(kafka-\d|each)\$ (.*)")
LEFT_OUT = (
    "sudo useradd ",
    "sudo python3 -m venv ",
    "sudo /opt/tidelog/bin/pip ",
    "sudo ln -s ",
    "sudo install -m 644 ",
)
"""Users and packages of this machine, and a unit for a systemd that does not run here."""


def blocks(text):
    """The indented blocks, each as its lines."""
    return [
        [line.strip() for line in block.splitlines()] for block in re.findall(r"(?:^ {4,}\S.*\n)+", text, re.MULTILINE)
    ]


def commands(block):
    """(host, command) of each line; none if it is a file."""
    return [(found[1], found[2]) for line in block if (found := LINE.match(line))]


class Host:
    """One machine: its folder has /etc/tidelog and /var/lib/tidelog."""

    def __init__(self, number, network, folder):
        self.number = number
        self.prefix = network.prefix(number - 1)
        self.address = network.address(number - 1)
        self.folder = folder / f"kafka-{number}"
        self.process = None
        self.starts = 0
        (self.folder / "etc").mkdir(parents=True)

    def is_registered(self):
        """Whether the broker serves, if it runs."""
        if self.process is None:
            return True
        assert self.process.poll() is None, self.log()
        return f" broker.registered broker={self.number} " in self.log()

    def start(self):
        self.starts += 1
        unit = RawConfigParser()
        unit.optionxform = str
        unit.read_string(UNIT.read_text("utf-8"))
        _, *arguments = shlex.split(unit["Service"]["ExecStart"])
        file = arguments[-1].replace("/etc/tidelog", str(self.folder / "etc"))
        command = [*self.prefix, sys.executable, "-m", "tidelog", *arguments[:-1], file]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, number=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.process = None
        assert code == (0 if number == signal.SIGTERM else -number), self.log()

    @property
    def _log(self):
        """That of its last start."""
        return self.folder / f"log-{self.starts}"

    def log(self):
        return self._log.read_text("utf-8") if self.starts else ""

    def systemctl(self, arguments):
        match arguments:
            case ["enable", "--now", "tidelog"] | ["start", "tidelog"]:
                self.start()
            case ["disable", "--now", "tidelog"] | ["stop", "tidelog"]:
                self.stop()
            case ["restart", "tidelog"]:
                self.stop()
                self.start()
            case ["kill", "--signal", "SIGKILL", "tidelog"]:
                self.stop(signal.SIGKILL)
            case _:
                raise AssertionError(arguments)


class Machines:
    """The hosts, and what the reader of the page knows: IDs that a command printed."""

    def __init__(self, network, folder):
        self.hosts = {number: Host(number, network, folder) for number in HOSTS}
        self.known = {f"KAFKA{number}": host.address for number, host in self.hosts.items()}
        self.is_served = lambda: None
        """Called once the network is cut, and when it is back: clients are served."""

    @property
    def bootstrap(self):
        return ",".join(f"{self.hosts[number].address}:9092" for number in EACH)

    def here(self, text, host):
        """The text with the names of the test."""
        for each in self.hosts.values():
            text = text.replace(f"kafka-{each.number}:", f"{each.address}:")
        text = text.replace("/etc/tidelog", str(host.folder / "etc"))
        text = text.replace("/var/lib/tidelog", str(host.folder / "data"))
        return re.sub(r"\$([A-Z]\w*)", lambda name: self.known[name[1]], text)

    def write(self, lines):
        """A server.properties: that of kafka-1 stands for the first three."""
        number = next(int(line.partition("=")[2]) for line in lines if line.startswith("node.id="))
        for other in EACH if number == 1 else (number,):
            host = self.hosts[other]
            changed = [
                re.sub(r"^node\.id=\d+", f"node.id={other}", line).replace(f"kafka-{number}:", f"kafka-{other}:")
                if line.startswith(("node.id=", "listeners="))
                else line
                for line in lines
            ]
            (host.folder / "etc" / "server.properties").write_text(self.here("\n".join(changed), host) + "\n", "utf-8")

    def run(self, where, command):
        for number in EACH if where == "each" else (int(where[-1]),):
            host = self.hosts[number]
            if command.startswith("sudo systemctl "):
                host.systemctl(shlex.split(command)[2:])
            elif command == "tidelog storage random-uuid":
                for name in ("CLUSTER", "ID1", "ID2", "ID3"):
                    self.known[name] = self.succeeds(host, command)
            elif not command.startswith(LEFT_OUT):
                self.succeeds(host, command)
            if command.startswith("sudo ip "):
                self.is_served()
            if "systemctl restart" in command:
                self.well(host)
        for host in self.hosts.values():
            wait_for(host.is_registered, f"kafka-{host.number} serves")

    def well(self, host):
        """The page has a restart wait for this."""
        explain = f"tidelog explain cluster --bootstrap-server {self.bootstrap}"
        wait_for(lambda: self.call(host, explain)[0] == 0, "a cluster without problems")

    def succeeds(self, host, command):
        if command.startswith("tidelog explain "):
            self.well(host)
            return ""
        code, out = self.call(host, command)
        assert code == 0, f"kafka-{host.number}$ {command}\n{out}\n{host.log()[-4_000:]}"
        return out.strip()

    def call(self, host, command):
        words = shlex.split(self.here(command.removeprefix("sudo ").removeprefix("-u tidelog "), host))
        if words[0] == "install":
            words = ["install", *words[words.index("-m") :]]
            words[-2:] = [word for word in words[-2:] if not word.endswith("/etc")]
            words.insert(1, "-d")
        if words[0] == "tidelog":
            words = [sys.executable, "-m", "tidelog", *words[1:]]
        done = subprocess.run(
            [*host.prefix, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        return done.returncode, done.stdout


@pytest.fixture
def hosts(tmp_path):
    """None for whoever is not root: `as_root` then runs the test as root of a network of its own."""
    if os.geteuid() != 0:
        yield None
        return
    with Network(len(HOSTS)) as network:
        machines = Machines(network, tmp_path)
        try:
            yield machines
        finally:
            for host in machines.hosts.values():
                if host.process is not None:
                    host.process.kill()
                    host.process.wait()


@as_root
def test_the_page_is_followed_literally_while_a_producer_writes(hosts):
    head, separator, rest = PAGE.read_text("utf-8").partition("\n## Restart\n")
    assert separator
    follow(hosts, head)
    topic = Topic(hosts.bootstrap, "written", 3, min_insync_replicas="2")
    parts = rest.split("\n## ")
    with Load(hosts.bootstrap, topic, PROMPT, pace_s=0.005) as load:
        for part in parts:
            if part.startswith("Backup"):  # the cluster is stopped there
                continue
            hosts.is_served = lambda: load.await_more(50)
            follow(hosts, part)
            load.await_more(50)
        load.stop()
        assert_exact(load, stored(hosts.bootstrap, topic))
    follow(hosts, next(part for part in parts if part.startswith("Backup")))
    hosts.well(hosts.hosts[1])
    assert_exact(load, stored(hosts.bootstrap, topic))


def follow(hosts, text):
    for block in blocks(text):
        found = commands(block)
        if not found:
            hosts.write(block)
        for where, command in found:
            hosts.run(where, command)


def test_everything_that_is_left_out_is_on_the_page():
    found = [command for block in blocks(PAGE.read_text("utf-8")) for _, command in commands(block)]
    assert all(any(command.startswith(each) for command in found) for each in LEFT_OUT)
