"""A log as a chain of batches: where it begins."""

from tidelog.sim.checks.replica import Chain


def test_a_log_that_starts_within_its_first_batch_has_that_batch():
    chain = Chain()
    chain.skip_to(5)
    assert (chain.first_offset, chain.end) == (5, 5)
    chain.skip_to(0)
    batch = chain.append(0, 9, 1, 77)
    assert chain.at(0) is batch
    assert (chain.first_offset, chain.end) == (0, 9)
