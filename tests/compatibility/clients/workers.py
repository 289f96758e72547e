"""Programs of Kafka Connect for tests: a distributed worker, or MirrorMaker 2, each a JVM with a file of properties."""

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests import jvm
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent.parent
STARTS_WITHIN_S = 180


class Worker:
    """Use as a context. `properties` is its file, `port` where it has its REST API; it may be killed and started again."""

    def __init__(self, libs: str, folder: Path, main: str, properties: Mapping[str, Any]) -> None:
        connectors = sorted((ROOT / ".cache" / "connect").glob("*/libs/connect-*.jar"))
        if not connectors:
            pytest.fail("the connectors of Kafka Connect are missing: run scripts/setup all")
        self._log, file = folder / "worker.log", folder / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        path = ":".join([libs, *map(str, connectors)])
        self._command = ["java", "-Xmx512m", *jvm.KAFKA, "-cp", path, f"org.apache.kafka.connect.{main}", str(file)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def check(self) -> None:
        """Fail with what the worker logged if it does not run any more."""
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")[-20_000:]


class Rest:
    """The REST API of a distributed worker."""

    def __init__(self, worker: Worker, port: int) -> None:
        self._worker, self._address = worker, f"http://127.0.0.1:{port}"

    def ask(self, path: str, content: Any = None) -> Any:
        """The answer to GET or, with content, to PUT; None while the worker cannot answer."""
        self._worker.check()
        data = None if content is None else json.dumps(content).encode()
        method, headers = "GET" if content is None else "PUT", {"Content-Type": "application/json"}
        try:
            with urlopen(
                Request(self._address + path, data=data, headers=headers, method=method), timeout=90
            ) as answer:
                return json.load(answer)
        except (URLError, OSError):
            return None

    def run(self, name: str, **options: Any) -> None:
        """Create a connector, and wait until its task runs."""
        config = {key.replace("_", "."): value for key, value in options.items()}
        wait_for(lambda: self.ask(f"/connectors/{name}/config", config), f"{name} is created", STARTS_WITHIN_S)
        self.await_running(name)

    def await_running(self, name: str) -> None:
        wait_for(lambda: self._states(name) == {"RUNNING"}, f"{name} runs", STARTS_WITHIN_S)

    def _states(self, name: str) -> set[str]:
        status = self.ask(f"/connectors/{name}/status") or {"tasks": []}
        failed = [task["trace"] for task in status["tasks"] if task["state"] == "FAILED"]
        assert not failed, failed
        return {task["state"] for task in status["tasks"]}
