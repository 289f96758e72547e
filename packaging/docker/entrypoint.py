#!/usr/bin/env python3
"""Starts the broker of a container with options from KAFKA_… variables, named as for Kafka's own image.

KAFKA_LOG_DIRS is log.dirs. In the rest of a name `_` stands for a dot, `__` for an underscore and `___` for a dash. The
variables take precedence over a mounted server.properties. With neither, the image's own file is used.

A node of a metadata quorum (process.roles) is formatted at its first start, with the cluster ID in CLUSTER_ID.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tidelog.config import properties as properties_files

PREFIX = "KAFKA_"
OF_THE_JVM = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "VERSION", "HEAP_OPTS", "OPTS", "JMX_OPTS", "JMX_HOSTNAME", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS", "LOG4J_OPTS",
        "LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL",
    )
)  # fmt: skip
"""Variables of Kafka's image that are not options of a broker."""
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
"""That of Kafka's image, where CLUSTER_ID is not set."""


def option_of(variable: str) -> str:
    """The name of the option that the variable sets: KAFKA_LOG_DIRS → log.dirs."""
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def properties(variables: Mapping[str, str]) -> str:
    """The lines of a server.properties with the options that the variables set."""
    given = {name: value for name, value in variables.items() if name.startswith(PREFIX) and name not in OF_THE_JVM}
    return "".join(f"{option_of(name)}={escaped(value)}\n" for name, value in sorted(given.items()))


def escaped(value: str) -> str:
    """A value as a line of a properties file. Backslashes keep their meaning there, as in Kafka's image; a line break,
    such as those of a certificate, would end the line."""
    return value.replace("\r", "\\r").replace("\n", "\\n")


def format_storage(config: Path, options: Mapping[str, str]) -> None:
    """Format the log directories that are not formatted; end with the tool's status if that is not possible. Another
    cluster's directories are refused by the tool if CLUSTER_ID says whose they should be."""
    given = os.environ.get("CLUSTER_ID")
    folders = (options.get("log.dirs") or options.get("log.dir", "/tmp/kafka-logs")).split(",")  # noqa: S108 (Kafka's default)
    if not given and all((Path(folder.strip()) / "meta.properties").exists() for folder in folders):
        return
    command = ["tidelog", "storage", "format", "--ignore-formatted", "--cluster-id", given or CLUSTER_ID]
    done = subprocess.run([*command, "--config", str(config)], check=False)  # noqa: S603 (fixed words and an ID, which the tool checks)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Write the options to a file that only this user reads, since some are secrets, and become the broker."""
    mounted = Path(os.environ.get("TIDELOG_MOUNTED", "/mnt/shared/config")) / "server.properties"
    default = Path(os.environ.get("TIDELOG_DEFAULT", "/etc/tidelog/server.properties"))
    merged = Path(os.environ.get("TIDELOG_MERGED", "/tmp/server.properties"))  # noqa: S108 (opened below, not followed)
    text = mounted.read_text("utf-8") + "\n" if mounted.exists() else ""
    text += properties(os.environ)
    merged.unlink(missing_ok=True)
    descriptor = os.open(merged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    text = text or default.read_text("utf-8")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    options = properties_files.parse(text)
    if options.get("process.roles", "").strip():
        format_storage(merged, options)
    os.execvp("tidelog", ["tidelog", "broker", "run", str(merged), *sys.argv[1:]])  # noqa: S606, S607 (found on PATH)


if __name__ == "__main__":
    main()
