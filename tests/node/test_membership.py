"""A registration says since which epoch no log directory went, and the store remembers what a disk cannot."""

from collections import deque

import pytest

from tests.node.one_broker import OneBroker
from tidelog.controller import tree
from tidelog.controller.features import SUPPORTED
from tidelog.effects import Stop
from tidelog.log import checkpoints
from tidelog.model import Endpoint, Time, id_text
from tidelog.node.membership import UNKNOWN_EPOCH, Membership
from tidelog.ports import Create, Delete, StoreResult, Write
from tidelog.sim.store import Tree

ENDPOINTS = [Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092)]
A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
PATH, DIRECTORIES = tree.broker_path(5), tree.directories_path(5)


class Store:
    """`lost` answers are `unknown` after all was done. `lost_writes`: of the next writes after a registration, whether
    each was done although its answer is `unknown`."""

    def __init__(self):
        self.tree = Tree()
        self.lost = 0
        self.lost_writes = []
        self.now = 0
        self.effects = []

    def register(self, *directories, writes=True, clean_epoch=-1):
        """Another process registers; its session stays open."""
        self.open(*directories, clean_epoch=clean_epoch)
        return self.start_session(writes=writes)

    def open(self, *directories, clean_epoch=-1):
        self.calls = calls = deque()
        membership = self.membership = Membership(
            5,
            ENDPOINTS,
            None,
            lambda operations, then: calls.append((operations, then)),
            self.effects,
            entropy=bytes,
            on_registered=lambda _: None,
            directories=lambda: directories,
            now=lambda: Time(self.now, self.now),
        )
        membership.clean_epoch = clean_epoch

    def start_session(self, *, writes=True):
        session, membership, calls = self.tree.session(), self.membership, self.calls
        membership.start(session.session)
        for _ in range(20):
            self.now += 250
            while calls:
                operations, then = calls.popleft()
                if not writes and membership.epoch >= 0:
                    continue
                if isinstance(operations[0], Write) and len(operations) == 1 and self.lost_writes:
                    if self.lost_writes.pop(0):
                        session.apply(operations)
                    then(StoreResult("unknown"))
                    continue
                result = session.apply(operations)
                if isinstance(operations[-1], Create) and self.lost:
                    self.lost -= 1
                    result = StoreResult("unknown")
                then(result)
            if membership.alarm.at <= self.now:
                membership.wake(Time(self.now, self.now))
        self.last = session
        return membership.epoch

    def end(self):
        self.last.close()

    def lose_session(self):
        """The process goes on without it."""
        self.end()
        self.membership.lost()
        return self.start_session()

    @property
    def proven(self):
        return tree.parse_registration(self.tree.nodes[PATH].data).clean_epoch

    @property
    def since(self):
        """What the controller makes of the registration."""
        node = self.tree.nodes[PATH]
        return min(tree.parse_registration(node.data).directories_since, node.created)

    @property
    def remembered(self):
        return tree.parse_directories(self.tree.nodes[DIRECTORIES].data)


def test_who_ever_registered_without_ids_is_taken_at_its_word():
    store = Store()
    store.register()
    assert store.since == -1
    assert DIRECTORIES not in store.tree.nodes
    store.end()
    store.register(A, B)
    assert store.since == -1
    assert store.remembered == {id_text(A): -1, id_text(B): -1}


def test_a_directory_that_went_voids_the_lives_before_until_it_is_back():
    store = Store()
    store.register(A, B)
    store.end()
    without = store.register(A)
    assert store.since == without
    assert store.remembered == {id_text(A): -1, id_text(B): without}
    store.end()
    assert without < store.register(A)
    assert store.since == without, "the life without it had all that it knew"
    store.end()
    store.register(B, A)
    assert store.since == -1


@pytest.mark.parametrize("lost_writes", [[False], [True], [False, True, False]])
def test_the_epoch_since_which_a_directory_is_missing_is_written_until_the_store_has_it(lost_writes):
    store = Store()
    store.register(A, B)
    store.end()
    store.lost_writes = lost_writes
    without = store.register(A)
    assert not store.lost_writes
    assert store.remembered == {id_text(A): -1, id_text(B): without}
    store.end()
    store.register(A)
    assert store.since == without, "the life without it had all that it knew"


def test_a_replaced_directory_is_another_one():
    store = Store()
    store.register(A, B)
    store.end()
    replaced = store.register(A, C)
    assert store.since == replaced
    store.end()
    emptied = store.register(B)
    assert store.since == emptied
    assert store.remembered == {id_text(A): emptied, id_text(B): -1, id_text(C): emptied}


def test_a_life_that_could_not_write_its_epoch_down_makes_the_next_more_careful():
    store = Store()
    store.register(A, B)
    store.end()
    without = store.register(A, writes=False)
    assert store.remembered[id_text(B)] == UNKNOWN_EPOCH
    assert store.since == without
    store.end()
    later = store.register(A)
    assert store.since == later > without
    assert store.remembered[id_text(B)] == later


@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_is_lost_changes_nothing(lost):
    store = Store()
    store.register(A, B)
    store.end()
    store.lost = lost
    without = store.register(A)
    assert without == store.tree.nodes[PATH].created
    assert store.since == without
    assert store.remembered == {id_text(A): -1, id_text(B): without}


def test_what_was_written_by_hand_stops_no_broker():
    store = Store()
    store.register(A)
    store.end()
    hand = store.tree.session()
    assert hand.apply([Write(DIRECTORIES, b"{nonsense")]).outcome == "ok"
    store.register(A)
    assert store.remembered == {id_text(A): -1}
    store.end()
    assert hand.apply([Delete(DIRECTORIES)]).outcome == "ok"
    assert store.register(A) > 0


def test_a_process_that_loses_only_its_session_proves_what_it_has():
    store = Store()
    first = store.register(A, clean_epoch=3)
    assert store.proven == 3
    second = store.lose_session()
    assert (store.proven, store.membership.proven_epoch) == (first, second)
    store.lose_session()
    assert store.proven == second
    store.end()
    store.register(A)
    assert store.proven == -1, "another process, which does not know how the one before ended"


def test_a_session_that_ends_before_the_registration_keeps_the_proof_of_the_last_process():
    store = Store()
    store.open(A, clean_epoch=3)
    store.membership.start(99)
    store.calls.clear()
    store.membership.lost()
    assert store.membership.proven_epoch == 3
    store.start_session()
    assert store.proven == 3


def test_a_directory_that_failed_before_the_session_ended_is_not_proven():
    store = Store()
    directories = [A, B]
    first = store.register(*directories)
    store.membership._directories = lambda: [A]
    second = store.lose_session()
    assert (store.proven, store.since) == (first, second)


@pytest.mark.parametrize("levels", [{"tidelog.metadata": 2}, {"a.later.feature": 1}])
def test_a_broker_that_does_not_support_what_is_finalized_stops_and_does_not_register(levels):
    store = Store()
    store.tree.change([Create(tree.FEATURE, tree.format_features(levels))], 0)
    store.open()
    store.membership.features = SUPPORTED
    assert store.start_session() == -1
    (stop,) = [effect for effect in store.effects if isinstance(effect, Stop)]
    (name, level), *_ = levels.items()
    assert stop.reason.startswith(f"the cluster has {name} {level}, and the broker's version supports ")


def test_a_process_that_stops_while_it_has_no_session_leaves_the_proof():
    broker = OneBroker()
    broker.lead()
    broker.node.broker.membership.epoch = 7
    broker.give("session_lost")
    broker.give("stop")
    broker.passes(20_000)
    assert checkpoints.read_clean_shutdown(broker.disk.read(f"/data/{checkpoints.CLEAN_SHUTDOWN}")) == 7
