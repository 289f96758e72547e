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


def jars(version: str, variable: str) -> str:
    """Java's class path of the jars that scripts/setup copied for `version`, or of those that `variable` names."""
    folder = Path(os.environ.get(variable) or ROOT / ".cache" / "kafka" / version / "libs")
    if not any(folder.glob("*.jar")):
        pytest.fail(f"Apache Kafka {version}'s jars are not in {folder}: run scripts/setup test")
    return f"{folder}/*"


@pytest.fixture(scope="session")
def kafka_libs() -> str:
    """The class path of Apache Kafka 4.3.1 with its tools: `java -cp KAFKA_LIBS org.apache.kafka.tools.…`."""
    return jars(KAFKA_VERSION, "TIDELOG_KAFKA_LIBS")


@pytest.fixture(scope="session")
def old_client_libs() -> str:
    """The class path of kafka-clients 3.9.2, which still has the messages between brokers (keys 4 to 7)."""
    return jars("3.9.2", "TIDELOG_KAFKA_OLD_LIBS")


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
