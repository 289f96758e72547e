"""Free ports: never one twice, neither in a process nor in two, and none that the kernel gives."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.ports import BLOCK, free_ports

ROOT = Path(__file__).parent.parent


def test_no_port_is_given_twice_here_or_in_another_process():
    given = [*free_ports(3), *free_ports(3)]
    code = f"from tests.ports import free_ports; print(*free_ports({BLOCK + 1}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    given += map(int, done.stdout.split())
    assert len(given) == len(set(given)) == 6 + BLOCK + 1


def test_the_kernel_gives_none_of_them():
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not any(low <= port <= high for port in free_ports(3))


def test_a_port_on_which_somebody_listens_is_left_out():
    (last,) = free_ports(1)
    following = range(last + 1, last + 4)
    taken = []
    for port in following:
        try:
            taken.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue  # somebody listens there already
    try:
        assert not set(free_ports(1)) & set(following)
    finally:
        for each in taken:
            each.close()
