"""The programs that try the features of clients: one for each, in kafka/clients. Each is given a bootstrap address and a
prefix of topics, tries one feature after the other, and prints {"version": …, "features": {feature: "ok" or "failed: …"}}.
A feature that a program does not name was not tried."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import jvm

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPTS = ROOT / "kafka" / "clients"
CACHE = ROOT / ".cache"
DONE_WITHIN_S = 280


class Program(NamedTuple):
    """How a client's program is run; `needs` is the file without which scripts/setup has not prepared it."""

    command: tuple[str, ...]
    needs: Path


def _python(name: str) -> Program:
    script = SCRIPTS / "python" / f"{name}.py"
    return Program((sys.executable, "-W", "ignore", str(script)), script)


def _node(name: str) -> Program:
    return Program(("node", str(SCRIPTS / "node" / f"{name}.cjs")), CACHE / "node-clients" / ".done")


def _built(file: Path) -> Program:
    return Program((str(file),), file)


def _java(name: str) -> Program:
    libs = next((CACHE / "kafka").glob("*/libs"), CACHE / "kafka")
    flags = ("-Xmx256m", *jvm.KAFKA, "-cp", f"{libs}/*")
    return Program(("java", *flags, str(SCRIPTS / "java" / f"{name}.java")), CACHE / "kafka" / ".done")


PROGRAMS = {
    "Kafka's clients for Java": _java("Features"),
    "confluent-kafka": _python("confluent"),
    "aiokafka": _python("aiokafka_client"),
    "kafka-python": _python("kafka_python"),
    "kafkajs": _node("kafkajs"),
    "@platformatic/kafka": _node("platformatic"),
    "sarama": _built(CACHE / "go-clients" / "sarama"),
    "franz-go": _built(CACHE / "go-clients" / "franz-go"),
    "rskafka": _built(CACHE / "rust-client" / "target" / "debug" / "rskafka"),
}


def run(program: Program, *arguments: str) -> dict[str, Any]:
    """What a program printed."""
    if not program.needs.exists():
        pytest.fail(f"{program.needs.relative_to(ROOT)} is missing: run scripts/setup all")
    environment = {**os.environ, "NODE_PATH": str(CACHE / "node-clients" / "node_modules"), "NODE_NO_WARNINGS": "1"}
    command = [*program.command, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DONE_WITHIN_S, check=False)
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
