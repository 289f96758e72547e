"""I48 can be broken: a fenced controller that writes, and brokers that obey whom they should not."""

from types import SimpleNamespace

import pytest

from tests.sim.checks.support import ghosts
from tidelog.controller import tree
from tidelog.ports import Create, Write
from tidelog.sim.checks.wire.controllers import Controllers
from tidelog.sim.checks.wire.wire_tap import AnsweredPush, epoch_known_to
from tidelog.sim.store import Tree

HOST = SimpleNamespace(broker_id=1, name="broker-1", lives=1)


class Store:
    """Two brokers' sessions, the checks' view of their tree, and what they write."""

    def __init__(self):
        self.tree = Tree()
        self.one, self.two = self.tree.session(), self.tree.session()
        self.ghosts, self.controllers = ghosts(), Controllers()
        self.look()

    def look(self, *, is_broker=True):
        self.ghosts.read(self.tree, set())
        self.controllers.check_write(self.tree, self.ghosts.touched, is_broker=is_broker)

    def change(self, session, *operations, **how):
        assert session.apply(operations).outcome == "ok"
        self.look(**how)

    def elect(self, session, epoch):
        self.change(
            session,
            Create(tree.CONTROLLER, tree.format_controller(0, 1), ephemeral=True),
            Write(tree.CONTROLLER_EPOCH, tree.format_controller_epoch(epoch), -1),
        )

    def depose(self):
        """Its session lives on."""
        node = self.tree.nodes.pop(tree.CONTROLLER)
        assert node.session


@pytest.fixture
def store():
    made = Store()
    made.elect(made.one, 1)
    made.change(made.one, Create(tree.delete_path("t")))
    return made


def test_whoever_is_controller_writes_also_where_its_node_is_gone(store):
    store.depose()
    store.change(store.one, Write(tree.delete_path("t"), b"", 0))


def test_a_write_of_a_controller_that_was_replaced(store):
    store.depose()
    store.elect(store.two, 2)
    store.change(store.two, Write(tree.delete_path("t"), b"", 0))
    with pytest.raises(AssertionError, match=r"^I48: session 1 wrote /admin/delete_topics/t, while 2 was elected"):
        store.change(store.one, Write(tree.delete_path("t"), b"", 1))


def test_what_anybody_writes(store):
    store.change(store.two, Create(f"{tree.LOG_DIR_EVENTS}/1", ephemeral=True))
    store.change(store.two, Write(tree.PRODUCER_ID_BLOCK, b"", 0))
    store.change(store.two, Write(tree.delete_path("t"), b"", 0), is_broker=False)
    store.tree.expire(store.two.session)
    store.look()


def test_changes_that_were_not_looked_at_one_by_one_are_nobodys(store):
    store.two.apply([Write(tree.delete_path("t"), b"", 0)])
    store.two.apply([Write(tree.delete_path("t"), b"", 1)])
    store.look()


def obey(*pushes, host=HOST):
    made, controllers = ghosts(), Controllers()
    made.controller_epoch = 3
    for push in pushes:
        controllers.check_pushes(made, host, [push])
    return controllers


def push(epoch, number, *, known=0, code=0):
    return AnsweredPush("StopReplica", epoch, number, known, code)


def test_pushes_that_are_obeyed_in_their_order_or_refused():
    controllers = obey(
        push(1, 5),
        push(1, 6),
        push(1, 5, code=11),
        push(2, 1, known=2),
        push(1, 9, known=2, code=11),
        push(9, 1, code=77),
    )
    assert controllers.accepted == {(1, 1): (2, 1)}
    controllers.check_pushes(ghosts(), SimpleNamespace(broker_id=1, name="broker-1", lives=2), [push(0, 1)])


def test_pushes_without_numbers():
    obey(push(1, -1), push(1, -1))


@pytest.mark.parametrize(
    ("pushes", "why"),
    [
        ([push(1, 6), push(1, 5)], "after 6 of epoch 1"),
        ([push(1, 6), push(1, 6)], "after 6 of epoch 1"),
        ([push(2, 1), push(1, 9)], "after 1 of epoch 2"),
        ([push(1, 1, known=2)], "although it knew a newer controller"),
        ([push(4, 1)], "from a controller that the store does not know"),
    ],
)
def test_pushes_that_must_not_be_obeyed(pushes, why):
    with pytest.raises(AssertionError, match=rf"^I48: broker-1 accepts StopReplica \d of controller epoch \d.*{why}"):
        obey(*pushes)


def test_what_a_broker_knows_of_controllers():
    broker = SimpleNamespace(controller=SimpleNamespace(known_epoch=4), pushes=SimpleNamespace(confirmed=7))
    assert epoch_known_to(SimpleNamespace(node=SimpleNamespace(broker=broker))) == 7
    assert epoch_known_to(SimpleNamespace(node=None)) == -1
