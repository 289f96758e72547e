"""What tests of every part share: Hypothesis profiles, free ports, Kafka's jars.

Nothing here skips: what a test needs and the machine lacks is a failure that says how to get it.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
KAFKA_VERSION = "4.3.1"

settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,  # the same examples on every machine; `--hypothesis-profile=search` looks for new ones
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def kafka_libs() -> str:
    """The class path of Apache Kafka 4.3.1 with its tools: `java -cp KAFKA_LIBS org.apache.kafka.tools.…`."""
    folder = Path(os.environ.get("TIDELOG_KAFKA_LIBS") or ROOT / ".cache" / "kafka" / KAFKA_VERSION / "libs")
    if not any(folder.glob("*.jar")):
        pytest.fail(f"Apache Kafka's jars are not in {folder}: run scripts/setup test")
    return f"{folder}/*"


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """`free_ports(3)`: so many different ports of the loopback that nobody listens on now."""

    def take(count: int) -> list[int]:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        ports = [each.getsockname()[1] for each in held]
        for each in held:
            each.close()
        return ports

    return take
