"""What clients can do with Tidelog: a program for each client tries one feature after the other, the cluster is asked
whether it bears that out, and what does not work is tried on a real Kafka, too. The results are kept in
tests/compatibility/clients/results, of which docs/clients.md is made: a difference fails."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.compatibility.clients import programs, results
from tests.compatibility.clients.confirmation import CONFIRMED, Left


def tried(program: programs.Program, bootstrap: str, prefix: str) -> dict[str, Any]:
    """What a program finds there, once the cluster bears it out."""
    left = Left(bootstrap, prefix)
    left.prepare(CONFIRMED)
    found = programs.run(program, bootstrap, prefix)
    for feature, outcome in found["features"].items():
        if outcome == results.WORKS:
            left.assert_confirmed(feature)
    return found


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_client(name: str, cluster: Any, request: pytest.FixtureRequest, kept: Callable[..., None]) -> None:
    prefix = results.file_name(name)
    found = tried(programs.PROGRAMS[name], cluster.bootstrap, prefix)
    if failed := results.failed(found):
        kafka = tried(programs.PROGRAMS[name], request.getfixturevalue("real_kafka"), prefix)
        assert results.failed(kafka) == failed, "what fails with Tidelog alone is Tidelog's fault"
    kept(
        name, {**found, "features": {each: found["features"][each] for each in CONFIRMED if each in found["features"]}}
    )
