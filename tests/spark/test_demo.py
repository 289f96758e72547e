"""The demo's path with part of its flights: leaders are killed, Spark reads everything once, and the demo compares it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parent.parent.parent / "demo" / "flights.py"
FLIGHTS = 12_000


@pytest.mark.timeout(900)
def test_the_demo_loses_and_doubles_no_flight_though_two_leaders_are_killed():
    command = [sys.executable, str(DEMO), "--flights", str(FLIGHTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    same = rf"sent {FLIGHTS} acknowledged {FLIGHTS} stored {FLIGHTS} lost 0 duplicated 0"
    assert re.fullmatch(rf"demo: {same} kills 2 ok", last), done.stdout + done.stderr
    assert done.returncode == 0


def test_a_number_of_flights_that_is_none_is_refused():
    done = subprocess.run([sys.executable, str(DEMO), "--flights", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "0 is not a positive number" in done.stderr
