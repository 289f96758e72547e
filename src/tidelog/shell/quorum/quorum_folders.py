"""The folders of a cluster on one machine whose brokers are its metadata quorum: formatted at the first start.

The first three brokers vote, or only the first one if there are fewer. Their controllers listen on ports that stand in
the snapshot of the voters, which every folder has, so they stay the same.
"""

import errno
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import sample

from tidelog.config import feature_levels
from tidelog.config.quorum import Address
from tidelog.log.checkpoints import MetaProperties
from tidelog.model import id_text, is_any_address
from tidelog.quorum import formatting
from tidelog.quorum.formatting import METADATA_FOLDER, InitialVoter
from tidelog.security.added_users import User
from tidelog.shell.connections import acceptor
from tidelog.shell.log_dir_lock import CannotStart
from tidelog.shell.quorum.quorum_setup import voters_of
from tidelog.shell.storage import look, write

LISTENER = "CONTROLLER"
VOTERS = 3
PORTS = range(20_000, 30_000)


class NotFormatted(Exception):
    """The folders do not fit each other; the message says why."""


def is_formatted(folder: Path) -> bool:
    """Whether the folder of a cluster has a metadata quorum."""
    return any(folder.glob(f"broker-*/{METADATA_FOLDER}"))


def prepare(folders: Mapping[int, Path], hosts: Mapping[int, str], users: Sequence[User] = ()) -> list[InitialVoter]:
    """Format the folders of new brokers, by number; `hosts` is where each one listens, and a new cluster has `users`.
    The voters; NotFormatted if a voter's folder is lost."""
    found = look(str(folder) for folder in folders.values())
    if found.unreadable:
        unreadable, reason = next(iter(found.unreadable.items()))
        raise NotFormatted(f"The data folder {unreadable} cannot be read: {reason}.")
    if not found.formatted:
        voters = drawn_voters(folders, hosts)
        cluster_id = id_text(drawn_id())
    else:
        first, formatted = next(iter(found.formatted.items()))
        voters = _known(first)
        cluster_id = formatted.meta.cluster_id
    for number, folder in folders.items():
        if str(folder) in found.empty:
            if found.formatted and any(voter.node_id == number for voter in voters):
                raise NotFormatted(
                    f"The data folder {folder} of a voter of the metadata quorum is missing; restore it, or remove the "
                    "cluster's data folder."
                )
            _format(str(folder), cluster_id, number, voters, users)
    return voters


def options_of(number: int, voters: Sequence[InitialVoter]) -> dict[str, str]:
    """The options of one broker."""
    roles = "broker,controller" if any(voter.node_id == number for voter in voters) else "broker"
    return {
        "process.roles": roles,
        "controller.listener.names": LISTENER,
        "controller.quorum.bootstrap.servers": ",".join(f"{voter.host}:{voter.port}" for voter in voters),
    }


def joined(given: Mapping[str, str], number: int, voters: Sequence[InitialVoter]) -> dict[str, str]:
    """The options of one broker, which has the options `given`: to `listeners` its own for controllers are added."""
    found = {**options_of(number, voters), **given}
    if "listeners" in given and f"{LISTENER}://" not in given["listeners"]:
        found["listeners"] = ",".join([given["listeners"], *listeners_of(number, voters)])
    return found


def listeners_of(number: int, voters: Sequence[InitialVoter]) -> list[str]:
    """Its listeners for controllers."""
    return [f"{LISTENER}://{voter.host}:{voter.port}" for voter in voters if voter.node_id == number]


def drawn_voters(nodes: Iterable[int], hosts: Mapping[int, str]) -> list[InitialVoter]:
    """The voters among these nodes, on free ports of their hosts."""
    numbers = sorted(nodes)
    numbers = numbers[: VOTERS if len(numbers) >= VOTERS else 1]
    ports = iter(sample(PORTS, len(PORTS)))
    return [InitialVoter(number, drawn_id(), hosts[number], _free_port(hosts[number], ports)) for number in numbers]


def _free_port(host: str, ports: Iterator[int]) -> int:
    """The kernel gives none of these to outgoing connections, so it is free at the next start, too."""
    for port in ports:
        try:
            acceptor.try_bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # another address may belong to the broker's network namespace
                continue
        return port
    raise NotFormatted(f"No port of {PORTS.start} to {PORTS.stop - 1} is free on {host}.")


def reachable_host(own: Address) -> str:
    """The host by which others reach the controller that listens there."""
    return socket.gethostname() if is_any_address(own.host) else own.host


def drawn_id() -> bytes:
    """Not all zeros, and its text does not begin with '-', so that it can be an argument."""
    return b"\x01" + os.urandom(15)


def _known(folder: str) -> list[InitialVoter]:
    try:
        found = voters_of(folder)
    except CannotStart as error:
        raise NotFormatted(str(error)) from None
    if not found:
        raise NotFormatted(f"The data folder {folder} is not of a cluster with a metadata quorum.")
    return [
        InitialVoter(voter.voter_id, voter.voter_directory_id, place.host, place.port)
        for voter in found
        for place in voter.endpoints
    ]


def _format(folder: str, cluster_id: str, number: int, voters: Sequence[InitialVoter], users: Sequence[User]) -> None:
    own = [voter.directory_id for voter in voters if voter.node_id == number]
    meta = MetaProperties(cluster_id, number, own[0] if own else drawn_id())
    bootstrap = formatting.bootstrap_records(feature_levels.levels(None, {}, is_dynamic=True), users)
    records = formatting.voter_records(voters, LISTENER)
    write(folder, formatting.files(meta, bootstrap, records, time.time_ns() // 1_000_000))
