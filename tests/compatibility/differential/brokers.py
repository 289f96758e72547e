"""The two brokers, alone and with the same options: a Tidelog process and a real Apache Kafka in combined mode."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import jvm
from tests.ports import free_ports
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.shell.supervisor import is_complete, metadata_view

OPTIONS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


@contextmanager
def tidelog(folder: Path, *, options: Mapping[str, str] | None = None, quorum: bool = False) -> Iterator[int]:
    """The port of a Tidelog broker that runs meanwhile."""
    with Processes(folder, brokers=1, port=0, overrides={**OPTIONS, **(options or {})}, quorum=quorum) as running:
        yield running.children[0].port


@contextmanager
def kafka(
    folder: Path,
    libs: str,
    *,
    listeners: Mapping[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    formatting: Sequence[str] = (),
    flags: Sequence[str] = (),
    tool: Callable[..., str] | None = None,
) -> Iterator[int]:
    """The port of a real Kafka that runs meanwhile; its log is `folder/kafka.log`. It may listen at more ports, by
    protocol. `flags` are for its JVM. `tool` is the fixture `kafka_tool`, whose JVM runs already: it formats the folder sooner."""
    folder.mkdir()
    file = folder / "server.properties"
    port, controller_port = free_ports(2)
    more = "".join(f",{name}://127.0.0.1:{number}" for name, number in (listeners or {}).items())
    properties = {
        "process.roles": "broker,controller",
        "node.id": "0",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{more}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **OPTIONS,
        **(options or {}),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    java = ["java", "-Xmx512m", *jvm.KAFKA, "-cp", libs]
    storage = ["kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(file), *formatting]
    if tool is not None:
        tool(*storage)
    else:
        subprocess.run([*java, *storage], check=True, capture_output=True, timeout=60)
    with (folder / "kafka.log").open("wb") as log:
        process = subprocess.Popen([*java[:-2], *flags, *java[-2:], "kafka.Kafka", str(file)], stdout=log, stderr=log)
        try:

            def serves() -> bool:
                assert process.poll() is None, (folder / "kafka.log").read_text(encoding="utf-8")
                return is_complete(metadata_view("127.0.0.1", port), frozenset({0}))

            wait_for(serves, "Kafka to serve", 180)
            yield port
        finally:
            process.kill()
            process.wait()
