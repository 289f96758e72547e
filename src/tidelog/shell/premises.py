"""A broker's log folders before it starts: made, locked, and known to belong to this broker of this cluster."""

from collections.abc import Callable

from tidelog.errors import CorruptLog, DiskFailed
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties, read_meta_properties
from tidelog.shell.disk import FolderLocked, OsDisk, lock_folder


class Refusal(Exception):
    """Why the broker does not start, as one sentence."""


def lock(disk: OsDisk) -> list[Callable[[], None]]:
    """Make and lock every folder; what is returned lets them go again."""
    locks: list[Callable[[], None]] = []
    try:
        for folder in disk.folders:
            disk.make_folder(folder)
            locks.append(lock_folder(folder))
    except FolderLocked:
        raise Refusal(f"Log folder {folder} is used by another process.") from None
    except (DiskFailed, OSError) as error:
        raise Refusal(f"Log folder {folder} cannot be used: {error}.") from error
    finally:
        if len(locks) < len(disk.folders):
            for release in locks:
                release()
    return locks


def check_identity(disk: OsDisk, cluster_id: str, node_id: int, entropy: Callable[[int], bytes]) -> None:
    """Each folder's meta.properties must name this cluster and broker; one without gets its own."""
    for folder in disk.folders:
        path = f"{folder}/{META_PROPERTIES}"
        if not disk.exists(path):
            disk.replace(path, format_meta_properties(MetaProperties(cluster_id, node_id, entropy(16))))
            continue
        try:
            found = read_meta_properties(disk.read(path), path)
        except CorruptLog as error:
            raise Refusal(f"{error}.") from error
        if found.cluster_id != cluster_id:
            raise Refusal(f"Log folder {folder} belongs to cluster {found.cluster_id}, not to {cluster_id}.")
        if found.node_id != node_id:
            raise Refusal(f"Log folder {folder} belongs to broker {found.node_id}, not to {node_id}.")
