"""Draws docs/status.svg: the output of `tidelog status --watch` for three brokers, one of them killed between records.

.venv/bin/python scripts/picture.py
"""

import io
import re
from pathlib import Path

from rich.console import Console

from tidelog.cli.replica_states import replica_states
from tidelog.cli.status.status_command import rich_table
from tidelog.shell.transport import Admin, Producer
from tidelog.testing import Cluster

PICTURE = Path(__file__).parent.parent / "docs" / "status.svg"
WIDTH = 92


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    with Cluster(brokers=3, min_insync_replicas=2) as cluster, Producer(cluster.bootstrap) as producer:
        cluster.create_topic("flights", 3)
        for number in range(3_000):
            producer.send("flights", b"%d" % number, partition=number % 3)
        producer.flush()
        cluster.kill(1)
        for number in range(1_500):
            producer.send("flights", b"%d" % number, partition=number % 3)
        producer.flush()
        with Admin(cluster.bootstrap) as admin:
            console.print(rich_table(replica_states(admin, "flights")))
    drawn = console.export_svg(title="tidelog status --watch")
    drawn = re.sub(r"@font-face \{.*?\}\n|<!--.*?-->", "", drawn, flags=re.DOTALL)  # load no web fonts
    lines = [line.rstrip() for line in drawn.replace("Fira Code, ", "").splitlines()]
    PICTURE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
