"""Kafka's own performance tools, each run in a JVM of its own; their figures begin when the JVM is up."""

import subprocess
from dataclasses import dataclass

from bench.sides import java

HEAP = ("-Xmx512M",)
TIMEOUT_S = 600


@dataclass(frozen=True)
class ProducerPerformance:
    """`records` records of `size` bytes, acks=all, in batches of 16 KB."""

    records: int
    size: int

    def run(self, bootstrap: str, topic: str) -> float:
        """MB/s as the tool reports it (MB of 2^20 bytes)."""
        arguments = ["--topic", topic, "--num-records", str(self.records), "--record-size", str(self.size)]
        properties = [f"bootstrap.servers={bootstrap}", "acks=all", "batch.size=16384"]
        tool = ["org.apache.kafka.tools.ProducerPerformance", *arguments, "--throughput", "-1"]
        output = _run([*tool, "--producer-props", *properties])
        summary = next(line for line in reversed(output.splitlines()) if "99.9th" in line)
        return float(summary.split("(")[1].split()[0])


@dataclass(frozen=True)
class ConsumerPerformance:
    """Read `records` records of a topic from its beginning."""

    records: int

    def run(self, bootstrap: str, topic: str) -> float:
        """MB/s of fetching, without the time in which the group forms (column fetch.MB.sec)."""
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(self.records)]
        output = _run(["org.apache.kafka.tools.ConsumerPerformance", *arguments, "--timeout", "60000"])
        names, values = (line.split(", ") for line in output.strip().splitlines()[-2:])
        figures = dict(zip(names, values, strict=True))
        if int(figures["data.consumed.in.nMsg"]) < self.records:
            raise RuntimeError(f"only {figures['data.consumed.in.nMsg']} of {self.records} records came")
        return float(figures["fetch.MB.sec"])


def _run(command: list[str]) -> str:
    done = subprocess.run(java(HEAP, *command), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stdout[-500:]} {done.stderr[-1500:]}")
    return done.stdout
