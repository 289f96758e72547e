"""Batches that must be inspected off the event loop before their request can be answered.

Meanwhile nothing else of its connection is served (`Context.blocks`), so that a producer's batches keep their order,
and a client has only one request of this kind at a time, as in Kafka.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.api.context import Computation, Context
from tidelog.effects import Deferred, Signal

_LONG_MS = 3_600_000
"""A result always comes: at this deadline the request only checks again."""


def begin(context: Context, function: Callable[..., Any], *arguments: Any) -> Computation:
    return context.broker.computing.submit(f"connection {context.connection}", function, arguments)


def wait_for(
    context: Context, computations: Sequence[Computation], size: int, proceed: Callable[..., Any], *arguments: Any
) -> Any:
    """Return what `proceed` returns, once all results are there. Meanwhile `size` bytes are kept for them."""
    return _proceed_or_wait(context, computations, size, proceed, arguments)


def _proceed_or_wait(
    context: Context,
    computations: Sequence[Computation],
    size: int,
    proceed: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> Any:
    open_ones = [each for each in computations if not each.is_done]
    if not open_ones:
        return proceed(context, *arguments)
    context.blocks = max(size, 1)
    signals = [Signal(("computed", each.token)) for each in open_ones]
    return Deferred(signals, context.now.mono + _LONG_MS, _proceed_or_wait, (computations, size, proceed, arguments))
