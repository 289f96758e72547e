"""CRC-32C, of the package crc32c: its extension module alone. The package also imports its command line and
importlib.metadata, which takes 60 ms of every start, a fifth of what a worker of Spark imports from Tidelog."""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c"]


def _extension() -> Any:
    """The extension, or the package where it has none of this name."""
    package = find_spec("crc32c")  # finds it, and imports nothing
    found = PathFinder.find_spec("_crc32c", package.submodule_search_locations) if package else None
    if found is None or found.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c
else:
    crc32c = _extension().crc32c
