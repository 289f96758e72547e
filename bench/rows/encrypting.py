"""Row 21: records written and read over TLS, and what the broker's processor pays for a gigabyte."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.loads.librdkafka import Librdkafka
from bench.measure import Figures, Load, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import end_offsets, fresh_topic
from tidelog.shell.certificates import Authority

SIZE = 1000
RECORDS = 500_000
PASSES = 4
TOPIC = "encrypted"


def tls(scale: float) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as folder:
        keystore, authority = Path(folder) / "broker.pem", Path(folder) / "ca.pem"
        made = Authority.new()
        keystore.write_bytes(made.issue("broker", ["127.0.0.1", "localhost"]))
        authority.write_bytes(made.certificate_pem)
        client = Librdkafka(max(int(RECORDS * scale), 10_000) // 10_000 * 10_000, SIZE, str(authority))
        with pair(1, keystore=keystore) as sides:
            for side in sides:
                fresh_topic(side.ports[0], TOPIC, 1, 1)
            for what, load in (("produce", _produce(client)), ("fetch", _fetch(client))):
                found = alternate(sides, load, PASSES)
                yield found.measure("rate", "21", f"TLS {what}, librdkafka, 1 KB", "MB/s", Target(1, at_least=True))
                yield found.measure("cpu_per_gb", "21", f"TLS {what}, CPU of the broker", "s/GB", Target(1))


def _produce(client: Librdkafka) -> Load:
    def load(side: Side) -> Figures:
        before = end_offsets(side.ports[0], TOPIC)
        found = _weighed(side, client, client.run)
        if (count := end_offsets(side.ports[0], TOPIC) - before) != client.records:
            raise RuntimeError(f"{side.name} stored {count} of {client.records} records")
        return found

    return load


def _fetch(client: Librdkafka) -> Load:
    return lambda side: _weighed(side, client, client.read)


def _weighed(side: Side, client: Librdkafka, act: Callable[[str, str], float]) -> Figures:
    before = side.cpu_seconds()
    seconds = act(side.tls_bootstrap, TOPIC)
    cpu = side.cpu_seconds() - before
    size = client.records * client.size
    return {"rate": size / seconds / 1e6, "cpu": cpu, "cpu_per_gb": cpu / size * 1e9}
