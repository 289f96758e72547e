"""What `tidelog storage` does: the directories that it describes, and those that it formats."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.options import CommandFailed
from tidelog.config import feature_levels
from tidelog.config.quorum import QuorumConfig
from tidelog.errors import DiskFailed, InvalidOption
from tidelog.log.checkpoints import MetaProperties
from tidelog.model import NO_ID
from tidelog.quorum import formatting
from tidelog.quorum.formatting import METADATA_FOLDER, InitialVoter
from tidelog.quorum.snapshots import Writable
from tidelog.security.added_users import User
from tidelog.shell.quorum.quorum_folders import reachable_host
from tidelog.shell.storage import Directories, look, write
from tidelog.wire.messages.cluster.metadata_log import FeatureLevelRecord

_NOT_DYNAMIC = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. "
    "If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
    "controller.quorum.bootstrap.servers instead."
)
_NO_CONTROLLERS = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
    "--standalone, --initial-controllers, or --no-initial-controllers."
)


class FormatRequest(NamedTuple):
    """The command line of `format`."""

    cluster_id: str
    users: Sequence[User] = ()
    ignore_formatted: bool = False
    release_version: str | None = None
    features: Sequence[str] = ()
    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controllers: str | None = None


def random_id() -> bytes:
    """An ID whose text does not begin with '-', so that it can be an argument."""
    while True:
        found = os.urandom(16)
        made = bytes((*found[:6], found[6] & 0x0F | 0x40, found[7], found[8] & 0x3F | 0x80, *found[9:]))
        if made[0] >> 2 != 0b111110 and made != NO_ID:
            return made


# info


def info_lines(folders: Sequence[str]) -> tuple[list[str], int]:
    """The lines of `info`, and the number of problems."""
    found = look(folders)
    there = [folder for folder in folders if Path(folder).is_dir()]
    problems = [_problem(folder, found) for folder in folders if folder not in found.formatted]
    problems += _contradictions(found)
    lines: list[str] = []
    if there:
        lines += ["Found log directory:" if len(there) == 1 else "Found log directories:", *_indented(there), ""]
    if found.formatted:
        first = next(iter(found.formatted.values()))
        lines += [f"Found metadata: {{{', '.join(f'{name}={value}' for name, value in first.lines.items())}}}", ""]
    if problems:
        lines += ["Found problem:" if len(problems) == 1 else "Found problems:", *_indented(problems), ""]
    return lines, len(problems)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _problem(folder: str, found: Directories) -> str:
    if not Path(folder).exists():
        return f"{folder} does not exist"
    if not Path(folder).is_dir():
        return f"{folder} is not a directory"
    if folder in found.empty:
        return f"{folder} is not formatted."
    return f"Error loading {found.unreadable[folder]}"


def _contradictions(found: Directories) -> list[str]:
    problems: list[str] = []
    formatted = list(found.formatted.values())
    for each in formatted[1:]:
        if each.meta.cluster_id != formatted[0].meta.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif each.meta.node_id != formatted[0].meta.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    if formatted and formatted[0].is_legacy:
        problems.append(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted "
            "for legacy mode."
        )
    return problems


# format


def format_directories(quorum: QuorumConfig, folders: Sequence[str], request: FormatRequest) -> Iterator[str]:
    """Format the directories that are not; yields the lines of output. CommandFailed or InvalidOption if the request
    contradicts itself or what is there; then nothing is written."""
    if not request.cluster_id:
        raise InvalidOption("--cluster-id is empty: use an ID of `storage random-uuid`")
    voters = _voters(quorum, request)
    is_dynamic = not quorum.voters and (voters is not None or request.no_initial_controllers)
    given = dict(feature_levels.parse(text) for text in request.features)
    levels = feature_levels.levels(request.release_version, given, is_dynamic=is_dynamic)
    if request.users and levels[feature_levels.METADATA_VERSION] < feature_levels.SCRAM_SINCE:
        release = feature_levels.RELEASES[feature_levels.SCRAM_SINCE]
        raise InvalidOption(f"SCRAM is only supported in {feature_levels.METADATA_VERSION} {release} or later.")
    found = look(folders)
    yield from _check(found, quorum, request)
    if voters is not None and not request.standalone and quorum.metadata_folder in found.formatted:
        yield from _name_controllers(quorum, found.formatted[quorum.metadata_folder].meta, voters)
    if not found.empty:
        yield "All of the log directories are already formatted."
        return
    yield from _write(quorum, request.cluster_id, found.empty, voters, levels, request.users)


def _voters(quorum: QuorumConfig, request: FormatRequest) -> tuple[InitialVoter, ...] | None:
    """The first controllers, None where options fix them or none is named."""
    if quorum.voters:
        if request.standalone or request.initial_controllers is not None:
            raise CommandFailed(_NOT_DYNAMIC)
        return None
    if request.standalone:
        if quorum.own is None:
            raise CommandFailed("You can only use --standalone on a controller.")
        return (InitialVoter(quorum.node_id, random_id(), reachable_host(quorum.own), quorum.own.port),)
    if request.initial_controllers is not None:
        return formatting.parse_voters(request.initial_controllers)
    if quorum.is_controller and not request.no_initial_controllers:
        raise CommandFailed(_NO_CONTROLLERS)
    return None


def _check(found: Directories, quorum: QuorumConfig, request: FormatRequest) -> Iterator[str]:
    """CommandFailed if a directory is of another node or cluster, or formatted where it must not be."""
    for folder, formatted in found.formatted.items():
        meta = formatted.meta
        if meta.cluster_id != request.cluster_id:
            raise CommandFailed(f"{folder} is of the cluster {meta.cluster_id}, not of {request.cluster_id}.")
        if meta.node_id != quorum.node_id:
            raise CommandFailed(f"{folder} is of node {meta.node_id}, not of node {quorum.node_id}.")
    if found.formatted and not request.ignore_formatted:
        raise CommandFailed(
            f"Log directory {next(iter(found.formatted))} is already formatted. Use --ignore-formatted to ignore this "
            "directory and format the others."
        )
    for folder in found.unreadable:
        yield f"I/O error trying to read log directory {folder}. Ignoring..."
    if found.unreadable and not found.empty and not found.formatted:
        raise CommandFailed("No available log directories to format.")


def _name_controllers(quorum: QuorumConfig, meta: MetaProperties, voters: tuple[InitialVoter, ...]) -> Iterator[str]:
    """A broker's directory from before the cluster had a quorum is formatted, but names no controllers yet."""
    folder = quorum.metadata_folder
    if Path(folder, METADATA_FOLDER).exists():
        return
    given = [voter.directory_id for voter in voters if voter.node_id == quorum.node_id]
    if any(directory_id != meta.directory_id for directory_id in given):
        raise CommandFailed(
            f"{folder} is formatted with another directory ID: leave node {quorum.node_id} out of the initial "
            "controllers, and add it to them once it runs."
        )
    yield f"Naming the controllers in {folder}."
    files = formatting.files(meta, (), formatting.voter_records(voters, quorum.listener), time.time_ns() // 1_000_000)
    _put(folder, {path: content for path, content in files.items() if path.startswith(METADATA_FOLDER)})


def _put(folder: str, files: Mapping[str, bytes]) -> None:
    try:
        write(folder, files)
    except (DiskFailed, OSError) as error:
        raise CommandFailed(f"{folder} cannot be formatted: {error}") from None


def _write(
    quorum: QuorumConfig,
    cluster_id: str,
    folders: Sequence[str],
    voters: tuple[InitialVoter, ...] | None,
    levels: Mapping[str, int],
    users: Sequence[User],
) -> Iterator[str]:
    bootstrap = formatting.bootstrap_records(levels, users)
    release = feature_levels.RELEASES[levels[feature_levels.METADATA_VERSION]]
    yield f"Bootstrap metadata: {_shown(bootstrap, levels)}"
    for folder in folders:
        kind, directory_id = "data directory", random_id()
        records = None
        if folder == quorum.metadata_folder:
            mine = [each.directory_id for each in voters or () if each.node_id == quorum.node_id]
            kind = _KINDS[voters is not None, bool(mine)]
            directory_id = mine[0] if mine else directory_id
            records = None if voters is None else formatting.voter_records(voters, quorum.listener)
        yield f"Formatting {kind} {folder} with {feature_levels.METADATA_VERSION} {release}."
        meta = MetaProperties(cluster_id, quorum.node_id, directory_id)
        _put(folder, formatting.files(meta, bootstrap, records, time.time_ns() // 1_000_000))


_KINDS = {
    (False, False): "metadata directory",
    (True, False): "dynamic metadata directory",
    (True, True): "dynamic metadata voter directory",
}
"""By whether the first controllers are named, and whether this node is one of them."""


def _shown(bootstrap: Sequence[Writable], levels: Mapping[str, int]) -> str:
    """As Kafka shows it, but without the keys of users."""
    records = ", ".join(f"ApiMessageAndVersion({_shown_record(record)} at version 0)" for record in bootstrap)
    level = levels[feature_levels.METADATA_VERSION]
    return f"BootstrapMetadata(records=[{records}], metadataVersionLevel={level}, source=format command)"


def _shown_record(record: object) -> str:
    if isinstance(record, FeatureLevelRecord):
        return f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
    name, mechanism = getattr(record, "name", ""), getattr(record, "mechanism", 0)
    return f"UserScramCredentialRecord(name='{name}', mechanism={mechanism})"
