"""I28 can be broken by markers that end one transaction in two ways."""

import pytest

from tidelog.model import TRANSACTION_TOPIC, TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.transactions import take
from tidelog.wire.records import Marker, batches, build_marker

LOG = TopicPartition(TRANSACTION_TOPIC, 0)


def end(ghosts, topic, *, committed, epoch=8):
    content = memoryview(build_marker(Marker(committed, 0), timestamp=6, producer_id=1, producer_epoch=epoch))
    take(ghosts, ghosts.of(TopicPartition(topic, 0)), content, next(iter(batches(content))))


def test_one_transaction_ends_one_way():
    ghosts = Ghosts()
    ghosts.of(LOG)
    end(ghosts, "keyed", committed=True)
    end(ghosts, "transacted", committed=True)
    end(ghosts, "transacted", committed=False, epoch=9)
    with pytest.raises(AssertionError, match="I28: transacted-0 aborts what keyed-0 commits: epoch 8 of producer 1"):
        end(ghosts, "transacted", committed=False)


@pytest.mark.parametrize("loss", [{"losses": 1}, {"rebase_after": 4}])
def test_a_coordinator_that_lost_what_it_had_decided_may_decide_again(loss):
    """Seed 3001604."""
    ghosts = Ghosts()
    end(ghosts, "keyed", committed=True)
    for name, value in loss.items():
        setattr(ghosts.of(LOG), name, value)
    end(ghosts, "transacted", committed=False)


def test_what_another_log_lost_says_nothing_of_the_coordinators():
    ghosts = Ghosts()
    end(ghosts, "keyed", committed=True)
    ghosts.of(TopicPartition("t", 0)).losses = 1
    with pytest.raises(AssertionError, match="I28"):
        end(ghosts, "transacted", committed=False)


def test_an_old_producers_epoch_stands_for_many_transactions():
    ghosts = Ghosts()
    ghosts.reused.add((1, 8))
    end(ghosts, "keyed", committed=True)
    end(ghosts, "keyed", committed=False)
    end(ghosts, "keyed", committed=True, epoch=9)
    with pytest.raises(AssertionError, match="I28"):
        end(ghosts, "transacted", committed=False, epoch=9)
