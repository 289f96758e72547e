"""`tidelog fuzz` on a broker process: frames of every API and version over live sockets, beside a canary."""

import re
import subprocess
import sys

from tests.fuzz.hostile import resident_bytes
from tests.processes import Processes

FRAMES = 100_000
MEGABYTE = 1024 * 1024
PATIENCE_MS = 60_000


def fuzzed(port, *options):
    command = [sys.executable, "-m", "tidelog", "fuzz", "--bootstrap", f"127.0.0.1:{port}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_500)


def test_a_broker_outlives_many_frames_and_answers_others(tmp_path, capfd):
    with Processes(tmp_path, brokers=1, port=0) as running:
        (child,) = running.children
        result = fuzzed(child.port, "--frames", str(FRAMES), "--seed", "1", "--max-latency-ms", str(PATIENCE_MS))
        assert child.process.poll() is None
        held = resident_bytes(child)
    assert result.returncode == 0, result
    first, *rest = result.stdout.splitlines()
    survived, closed, waited = map(int, re.findall(r"(\d+) (?:survived|closed|waited)", first))
    assert survived + closed + waited == FRAMES
    assert min(survived, closed) > FRAMES // 10, "neither all frames are good nor all are bad"
    assert rest[-1] == f"To repeat: tidelog fuzz --frames {FRAMES} --seed 1"
    assert held < 300 * MEGABYTE
    logged = capfd.readouterr().err
    assert "connection.refused" in logged
    assert "Traceback" not in logged
    assert "request.failed" not in logged


def test_a_broker_that_is_too_slow_is_a_failure(tmp_path):
    with Processes(tmp_path, brokers=1, port=0) as running:
        # So many that one of the other client's requests takes longer than a millisecond on any machine.
        result = fuzzed(running.children[0].port, "--frames", "5000", "--max-latency-ms", "1")
    assert result.returncode == 1, result
    assert "canary" in result.stderr
