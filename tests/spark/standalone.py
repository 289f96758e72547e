"""A standalone cluster of Spark: a master and two workers, each with one core and processes of their own."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark

from tests.ports import free_ports
from tests.spark.settings import environment
from tests.waiting import wait_for

HOST = "127.0.0.1"
WORKERS = 2
BACKEND = b"CoarseGrainedExecutorBackend"
STARTS_WITHIN_S = 300


class Standalone:
    """Its processes end with the block; a killed worker can be started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []
        self._starts = 0
        self._executors: set[int] = set()
        port, self._page = free_ports(2)
        self.master = f"spark://{HOST}:{port}"

    def __enter__(self) -> Self:
        port = self.master.rpartition(":")[2]
        arguments = ["--host", HOST, "--port", port, "--webui-port", str(self._page)]
        self._master = self._started("org.apache.spark.deploy.master.Master", arguments, "I have been elected leader")
        self._workers = [self.start_worker() for _ in range(WORKERS)]
        return self

    def __exit__(self, *_: object) -> None:
        self.executors()
        for process in (*self._workers, self._master):
            process.kill()
            process.wait()
        for executor in self._executors:  # each ends by itself when it notices that its worker has ended
            wait_for(lambda executor=executor: not _is_executor(executor), "the executor has ended", STARTS_WITHIN_S)

    def start_worker(self) -> "subprocess.Popen[bytes]":
        port, page = free_ports(2)
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(page), "--cores", "1", "--memory", "1g"]
        arguments += ["--work-dir", str(self._folder / "work"), self.master]
        return self._started("org.apache.spark.deploy.worker.Worker", arguments, "Successfully registered with master")

    def kill_worker(self) -> None:
        """SIGKILL, and another worker in its place."""
        self.executors()
        self._workers[0].kill()
        self._workers[0].wait()
        self._workers[0] = self.start_worker()

    def kill_executor(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(wait_for(self.executors, "there is an executor", STARTS_WITHIN_S)[0], signal.SIGKILL)

    def kill_python_worker(self) -> None:
        """One that runs tasks of an executor, or the daemon that starts them."""
        with suppress(ProcessLookupError):
            os.kill(wait_for(self._python_workers, "there is a Python worker", STARTS_WITHIN_S)[-1], signal.SIGKILL)

    def _python_workers(self) -> list[int]:
        daemons = [each for executor in self.executors() for each in _children(executor)]
        return [*daemons, *(each for daemon in daemons for each in _children(daemon))]

    def executors(self) -> list[int]:
        """The executors of all workers that run now."""
        found = [each for worker in self._workers for each in _children(worker.pid) if _is_executor(each)]
        self._executors.update(found)
        return found

    def _started(self, name: str, arguments: list[str], ready: str) -> "subprocess.Popen[bytes]":
        self._starts += 1
        log = self._folder / f"{self._starts}.log"
        command = [Path(pyspark.__file__).parent / "bin" / "spark-class", name, *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**environment(), "SPARK_DAEMON_MEMORY": "256m"}
            )

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            return ready in log.read_text(errors="replace")

        try:
            wait_for(is_ready, f"{name}: {ready}", STARTS_WITHIN_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process


def _children(process: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text(encoding="ascii").split())
    return found


def _is_executor(process: int) -> bool:
    try:
        return BACKEND in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
