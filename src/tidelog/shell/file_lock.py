"""Whether a process holds the lock (flock) of a file. Nothing is created, and nobody is kept from the lock."""

import fcntl
import os


def is_held(path: str | os.PathLike[str]) -> bool:
    """FileNotFoundError, or another OSError, where the file cannot be opened."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
