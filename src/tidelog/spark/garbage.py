"""What Spark's Python workers do between two tasks: they collect garbage."""

import gc
from functools import cache


@cache
def freeze_modules() -> None:
    """Exempt what this process has imported from the collection of garbage. Spark's worker collects after each task:
    over some 60,000 objects of modules that takes 16 ms of CPU, more than a small task. Called in processes that
    belong to Spark, when what they need is imported."""
    gc.freeze()
