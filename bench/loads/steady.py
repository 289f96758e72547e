"""One request of one record after the other, at a fixed pace over one raw connection, until told to stop: what others
feel while a broker is busy with itself. Runs in a process of its own: python -m bench.loads.steady …
"""

import json
import subprocess
import sys
import threading
import time

from bench.wire import PRODUCE, Client, frame, leaders, one_record

ALL = -1
RECEIVE_BYTES = 1 << 16


class Steady:
    """A load that runs from `__init__` to `stop`; `every_ms` is the pace."""

    def __init__(self, port: int, topic: str, every_ms: float) -> None:
        command = [sys.executable, "-m", __spec__.name, str(port), topic, str(every_ms)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> dict[str, float]:
        """Figures: `p50`, `p99` and `longest` in ms, from the moment at which a request was due."""
        output, _ = self._process.communicate("stop\n", timeout=60)
        found: dict[str, float] = json.loads(output)
        return found


def pace(client: Client, data: bytes, every_s: float, stopped: threading.Event) -> list[float]:
    """Seconds of each request; one that is due while the one before still waits has waited from then on."""
    sock = client.socket
    took = []
    due = begin = time.perf_counter()
    while not stopped.is_set():
        sock.sendall(data)
        size = int.from_bytes(sock.recv(4, 0x100))  # MSG_WAITALL
        sock.recv(size, 0x100)
        now = time.perf_counter()
        took.append(now - begin)
        due = begin = due + every_s
        if due > now:
            time.sleep(due - now)
            begin = time.perf_counter()  # the sleep's own lateness is not the broker's
    return took


def run(port: int, topic: str, every_ms: float) -> dict[str, float]:
    led, ports = leaders(port, topic)
    stopped = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        stopped.set()

    with Client(ports[led[0]]) as client:
        threading.Thread(target=listen, daemon=True).start()
        took = sorted(pace(client, frame(PRODUCE, one_record(topic, [0], ALL)), every_ms / 1000, stopped))
    return {
        "p50": took[len(took) // 2] * 1000,
        "p99": took[len(took) * 99 // 100] * 1000,
        "longest": took[-1] * 1000,
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))))
