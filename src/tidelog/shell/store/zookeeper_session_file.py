"""The session that a broker's process left behind in ZooKeeper when it was killed: its heirs end it at once.

The servers would keep it, with the broker's registration and perhaps the controller's node, for its whole time-out. A
broker writes its session down beside its logs; whoever finds that file and knows that the process is gone may end the
session: the next process, which holds the folder's lock, or the supervisor. A file from before a restart of the
machine, or from another machine, is left alone.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

FILE = "zookeeper-session"
CONNECT_TIMEOUT_S = 3.0


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def write(folder: Path, hosts: str, identity: tuple[int, bytes]) -> None:
    """Write the session down, for the user of this process only: who knows the password may end it."""
    session, password = identity
    text = json.dumps({"boot": _boot(), "hosts": hosts, "session": session, "password": password.hex()})
    with suppress(OSError):
        fd = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)


def remove(folder: Path) -> None:
    """The session ended in order."""
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def end_session(folder: Path) -> None:
    """End the session that a dead process wrote down there, if there is one and the servers can be reached."""
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

    end_at_servers(hosts, identity, CONNECT_TIMEOUT_S)
