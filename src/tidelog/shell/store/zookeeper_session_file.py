"""The session that a killed broker process left in ZooKeeper, so that its successor can end it at once.

The servers would keep the session, with the broker's registration and perhaps the controller's node, until it times
out. A broker therefore writes its session to a file beside its logs. Whoever finds that file and knows that the process
is dead may end the session: the next process, which holds the folder's lock, or the supervisor. A file from before a
restart of the machine, or from another machine, is ignored.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from tidelog.shell.store.zookeeper_security import NO_SECURITY, ZookeeperSecurity

FILE = "zookeeper-session"
CONNECT_TIMEOUT_S = 3.0


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def write(folder: Path, hosts: str, identity: tuple[int, bytes]) -> None:
    """Write the session, readable only by the user of this process: the password is enough to end it."""
    session, password = identity
    text = json.dumps({"boot": _boot(), "hosts": hosts, "session": session, "password": password.hex()})
    with suppress(OSError):
        fd = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)


def remove(folder: Path) -> None:
    """Remove the file, after the session was closed."""
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def end_session(folder: Path, security: ZookeeperSecurity = NO_SECURITY) -> None:
    """End the session in the file of a dead process, if there is one and the servers can be reached."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="ascii"))
        identity = int(found["session"]), bytes.fromhex(found["password"])
        is_same_boot = found["boot"] == _boot()
        hosts = str(found["hosts"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    remove(folder)
    if not is_same_boot:
        return
    from tidelog.shell.store.zookeeper_client import end_session as end_at_servers

    end_at_servers(hosts, identity, security, CONNECT_TIMEOUT_S)
