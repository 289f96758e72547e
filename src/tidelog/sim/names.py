"""Names of a simulated disk: what each means, and how changes of folders are carried out."""

from tidelog.sim.inode import Inode

Entry = Inode | None
"""What a name in a folder means: a file, or None for a folder."""

Names = list[str]

Change = tuple[str, str, Entry, tuple[str, ...]]
"""One change of folders, and which: ("link", path, entry, …), ("unlink", path, None, …), ("rename:" + source, target,
None, …)."""


Changes = list[Change]


def parent_of(path: str) -> str:
    return path.rsplit("/", 1)[0]


def below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def carry_out(names: dict[str, Entry], change: Change) -> None:
    kind, path, entry, _ = change
    if kind == "link":
        names[path] = entry
    elif kind == "unlink":
        for name in within(names, path):
            del names[name]
    else:
        source = kind.removeprefix("rename:")
        for name in within(names, source):
            names[path + name[len(source) :]] = names.pop(name)


def within(names: dict[str, Entry], path: str) -> list[str]:
    """The path itself and all below it; nothing is below a file."""
    if names.get(path) is not None:
        return [path]
    return [name for name in names if below(name, path)]


def moved(earlier: Change, change: Change) -> Change:
    """What was done in a folder before the folder got another name happened in that folder, whatever is called so now:
    its name became durable, what was done in it not yet."""
    source, target = change[0].removeprefix("rename:"), change[1]
    if source == change[0]:
        return earlier

    def found(path: str) -> str:
        return target + path[len(source) :] if below(path, source) else path

    kind, path, entry, folders = earlier
    if not path.startswith(source + "/"):
        return earlier
    if kind.startswith("rename:"):
        kind = f"rename:{found(kind.removeprefix('rename:'))}"
    return kind, found(path), entry, tuple(map(found, folders))
