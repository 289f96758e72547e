"""How much processor time the code under test takes, without what other tests of this process make it pay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Within it no garbage is collected: a collection goes through all that earlier tests of this process left, for
    half a second at worst, and would be counted as time of the code that is measured."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
