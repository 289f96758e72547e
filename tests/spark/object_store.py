"""An object store with Amazon's API, moto, in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.ports import free_ports
from tests.waiting import wait_for

BUCKET = "lakes"
STARTS_WITHIN_S = 180
CONFLICT = 409


@contextmanager
def running(log: Path) -> Iterator[str]:
    """Its URL; it has one bucket."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output
        )

    def has_bucket() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            with urlopen(Request(f"{url}/{BUCKET}", method="PUT"), timeout=10):
                return True
        except HTTPError as error:
            return error.code == CONFLICT  # it was made by a request whose answer came too late
        except OSError:
            return False

    try:
        wait_for(has_bucket, "the object store has a bucket", STARTS_WITHIN_S)
        yield url
    finally:
        process.kill()
        process.wait()


def settings(url: str) -> Mapping[str, str]:
    """Hadoop's settings for it."""
    return {
        "fs.s3a.endpoint": url,
        "fs.s3a.endpoint.region": "eu-north-1",
        "fs.s3a.access.key": "user",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.path.style.access": "true",
    }
