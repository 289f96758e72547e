"""How tests start JVMs, most of which live for less than a minute: with flags that make them start soon.

Half of the processor time of a start goes into reading and verifying thousands of classes. `python -m tests.jvm`, which
scripts/test runs before a selection, writes the classes of Kafka and of Spark down as a JVM holds them ("class data
sharing", CDS); JVMs with the same class path map these files. Where a file is missing or of another Java, they do without.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from tests.ports import free_ports

ROOT = Path(__file__).parent.parent
ARCHIVES = ROOT / ".cache" / "classes"
SHORT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Such a JVM is done before a better compiler pays."""
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""A JVM with another class path would say on its stdout that it cannot use the archive."""
DONE_WITHIN_S = 300


def _flags(archive: Path) -> tuple[str, ...]:
    return (*SHORT, *SILENT, f"-XX:SharedArchiveFile={archive}")


KAFKA = _flags(ARCHIVES / "kafka.jsa")
"""For a class path that begins with Kafka's jars."""
SPARK = _flags(ARCHIVES / "spark.jsa")
"""For PySpark's jars in `spark_home`."""


def kafka_libs() -> Path:
    """The folder of the jars of Apache Kafka with its tools."""
    given = os.environ.get("TIDELOG_KAFKA_LIBS")
    return Path(given) if given else next(iter(sorted((ROOT / ".cache" / "kafka").glob("*/libs"))), ROOT / ".cache")


def spark_home() -> Path:
    """PySpark as it is installed, without its pyspark.zip: every Python process of Spark would import from there first,
    and compile what it imports, which takes half a second each time. Always the same folder, which archives go by."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = ROOT / ".cache" / "spark-home"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (home / name).symlink_to(Path(found.origin).parent / name)
    return home


def spark_environment() -> dict[str, str]:
    """What a process that starts a session of Spark needs."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _archived(name: str) -> tuple[str, ...]:
    """Flags of the JVM that writes the archive when it ends."""
    return (*SHORT, *SILENT, f"-XX:ArchiveClassesAtExit={ARCHIVES / name}.jsa")


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DONE_WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        sys.stderr.write(f"{command} exited with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}\n")


def _archive_kafka(folder: Path) -> None:
    """A broker and its clients, in one JVM."""
    libs, (port, controller) = f"{kafka_libs()}/*", free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": "0",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    format_it = ("kafka.tools.StorageTool", "format", "--standalone", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(file))
    _run(["java", *SHORT, "-cp", libs, *format_it])
    source = ROOT / "tests" / "java" / "Classes.java"
    _run(["java", *_archived("kafka"), "-cp", libs, str(source), str(file), f"127.0.0.1:{port}"])


def _archive_spark(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.classes", str(folder), " ".join(_archived("spark"))]
    _run(command, **spark_environment())


def _contents() -> str:
    """What the archives are good for: this Java, and these jars."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    jars = [*kafka_libs().glob("*.jar"), *(spark_home() / "jars").glob("*.jar")]
    return java + "".join(f"{jar} {jar.stat().st_mtime_ns}\n" for jar in sorted(jars))


def main() -> None:
    """Write the archives, unless they are there."""
    contents, told = _contents(), ARCHIVES / "contents"
    if told.exists() and told.read_text(encoding="utf-8") == contents:
        return
    shutil.rmtree(ARCHIVES, ignore_errors=True)
    ARCHIVES.mkdir(parents=True)
    for archive in (_archive_kafka, _archive_spark):
        with tempfile.TemporaryDirectory() as folder:
            archive(Path(folder))
    told.write_text(contents, encoding="utf-8")


if __name__ == "__main__":
    main()
