"""Commands of the operating system that need rights: what they answer, or why they cannot."""

import os
import subprocess


class NotAllowed(Exception):
    """The machine does not let us; the message is what it said."""


def command(*words: str) -> str:
    """What it printed; NotAllowed where it is missing or fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 (fixed words)
    except OSError as error:
        raise NotAllowed(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotAllowed(f"{words[0]}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout


def check_root() -> None:
    if os.geteuid() != 0:
        raise NotAllowed("it needs root")
