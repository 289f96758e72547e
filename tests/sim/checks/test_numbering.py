"""I26 can be broken: sequences in a log, and what the log remembers of them."""

import pytest

from tests.sim.checks.support import append, ghosts, replica
from tidelog.log.producers import AppendedBatch, Producer
from tidelog.sim.checks import numbering

FIRST, SECOND, THIRD = (7, 0, 0, 1), (7, 0, 2, 3), (7, 0, 4, 5)


def numbered(*producers, whole=True):
    made = replica(0)
    append(made, *((2, 1, None, producer) for producer in producers))
    numbers = numbering.Numbering()
    numbers.rebuild(made)
    numbers.whole = whole
    return made, numbers


def remember(made, epoch, *batches):
    producer = Producer(7, epoch)
    producer.batches = [AppendedBatch(first, last, base, base + 1, 0) for first, last, base in batches]
    made.partition.log.producers._producers[7] = producer


def test_sequences_that_go_on():
    made, numbers = numbered(FIRST)
    numbers.take(made, append(made, (2, 1, None, SECOND), (2, 1, None, (7, 1, 0, 1)), (2, 1, None, (8, 0, 5, 6))))


@pytest.mark.parametrize("producer", [FIRST, THIRD, (7, 1, 2, 3), (7, -1, 2, 3)])
def test_sequences_that_do_not(producer):
    made, numbers = numbered(FIRST)
    with pytest.raises(AssertionError, match=r"^I26:"):
        numbers.take(made, append(made, (2, 1, None, producer)))


@pytest.mark.parametrize("producer", [THIRD, (7, 1, 2, 3)])
def test_a_follower_need_not_have_had_what_its_leader_deleted(producer):
    """Seed 3007110: what it has below its start is of a leader whose records were lost."""
    made, numbers = numbered(FIRST)
    made.log.deleted_to = 2
    numbers.take(made, append(made, (2, 1, None, producer)))
    with pytest.raises(AssertionError, match=r"^I26:"):
        numbers.take(made, append(made, (2, 1, None, (7, 1, 8, 9))))


def test_a_log_that_remembers_what_it_holds():
    made, numbers = numbered(FIRST, SECOND)
    remember(made, 0, (0, 1, 0), (2, 3, 2))
    numbers.compare(made)
    remember(made, 0, (2, 3, 2))
    numbers.compare(made)


@pytest.mark.parametrize(
    ("epoch", "batches"),
    [
        (0, [(0, 1, 0)]),
        (0, [(0, 1, 0), (2, 3, 2), (4, 5, 4)]),
        (1, [(0, 1, 0), (2, 3, 2)]),
        (0, [(0, 1, 9), (2, 3, 2)]),
    ],
    ids=["less", "more", "another epoch", "another place"],
)
def test_a_log_that_remembers_something_else(epoch, batches):
    made, numbers = numbered(FIRST, SECOND)
    remember(made, epoch, *batches)
    with pytest.raises(AssertionError, match=r"^I26:"):
        numbers.compare(made)


def test_a_log_that_has_forgotten_a_producer_or_knows_one_too_many():
    made, numbers = numbered(FIRST)
    with pytest.raises(AssertionError, match=r"^I26: .*forgotten"):
        numbers.compare(made)
    made, numbers = numbered()
    remember(made, 0, (0, 1, 0))
    with pytest.raises(AssertionError, match=r"^I26: .*without a record"):
        numbers.compare(made)
    numbers.whole = False
    numbers.compare(made)


def test_the_same_batch_in_two_places():
    ghost = ghosts().of(replica(0).partition.name)
    for producer in (FIRST, SECOND):
        ghost.committed.append(ghost.committed.end, ghost.committed.end + 2, 1, 5, producer)
    numbering.check_unique(ghost, 0)
    ghost.committed.append(4, 6, 1, 5, FIRST)
    with pytest.raises(AssertionError, match=r"^I26:"):
        numbering.check_unique(ghost, 0)
    numbering.check_unique(ghost, 2)  # the first was deleted: who has started over does not know it


def test_a_retry_is_answered_as_the_first_time_unless_that_was_deleted():
    ghost = ghosts().of(replica(0).partition.name)
    numbering.check_answer(ghost, FIRST, 0, 0)
    numbering.check_answer(ghost, FIRST, 0, 0)
    with pytest.raises(AssertionError, match=r"^I26: .*answered"):
        numbering.check_answer(ghost, FIRST, 4, 0)
    numbering.check_answer(ghost, FIRST, 4, 2)


MARKER = (7, 0, -1, -1)


def test_coordinators_number_nothing():
    made, numbers = numbered(MARKER)
    remember(made, 0, (-1, -1, 0))
    numbers.compare(made)


def test_of_an_old_producer_perhaps_only_the_marker_was_replayed():
    """Seed 381: it goes on in its epoch, and its records stand in what compaction hides from the check."""
    made, numbers = numbered(MARKER, whole=False)
    remember(made, 0, (0, 1, 0))
    numbers.compare(made)
    made, numbers = numbered(FIRST, (7, 1, -1, -1), whole=False)
    remember(made, 1, (0, 1, 0))
    with pytest.raises(AssertionError, match=r"^I26:"):
        numbers.compare(made)
    made, numbers = numbered(MARKER)
    remember(made, 0, (0, 1, 0))
    with pytest.raises(AssertionError, match=r"^I26:"):
        numbers.compare(made)
