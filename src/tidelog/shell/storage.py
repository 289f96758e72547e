"""The directories of one node: which are formatted, and writing those that are not."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.config import properties
from tidelog.errors import CorruptLog, InvalidOption
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, read_meta_properties
from tidelog.shell.disk import OsDisk

_SHOWN = {"0": ("broker.id", "cluster.id", "version"), "1": ("cluster.id", "directory.id", "node.id", "version")}


class Formatted(NamedTuple):
    """A formatted directory: what its meta.properties says, and its lines by name."""

    meta: MetaProperties
    lines: Mapping[str, str]

    @property
    def is_legacy(self) -> bool:
        """Formatted by a broker that used ZooKeeper."""
        return self.lines["version"] == "0"


class Directories(NamedTuple):
    """By path, in order: formatted ones, those that are missing or have no meta.properties, and those that cannot be
    read, with the reason."""

    formatted: dict[str, Formatted]
    empty: list[str]
    unreadable: dict[str, str]


def look(folders: Iterable[str]) -> Directories:
    found = Directories({}, [], {})
    for folder in sorted(folders):
        file = Path(folder, META_PROPERTIES)
        try:
            found.formatted[folder] = _read(file)
        except FileNotFoundError:
            found.empty.append(folder)
        except (OSError, CorruptLog, InvalidOption) as error:
            found.unreadable[folder] = str(error)
    return found


def _read(file: Path) -> Formatted:
    content = file.read_bytes()
    meta = read_meta_properties(content, str(file))
    lines = properties.parse(content.decode())
    shown = _SHOWN[lines["version"]]
    return Formatted(meta, {name: lines[name] for name in shown if name in lines})


def write(folder: str, files: Mapping[str, bytes]) -> None:
    """Create the directory with these files, each durable before the next; DiskFailed if that is not possible."""
    disk = OsDisk([folder])
    disk.make_folder(folder)
    for path, content in files.items():
        disk.make_folder(str(Path(folder, path).parent))
        disk.replace(f"{folder}/{path}", content)
