"""The mirror of delegation tokens against the tree itself: whatever happens, in the end it has what stands there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller import tree
from tidelog.node.security.delegation_tokens import TokenMirror
from tidelog.ports import Create, Delete, StoreResult, Write
from tidelog.security.delegation_tokens import Principal, Token
from tidelog.sim.store import Tree

KEPT = 3
"""Notifications that this controller keeps."""
ALICE = Principal("User", "alice")


def token(token_id, end):
    return Token(token_id, ALICE, ALICE, (), 0, 100, end)


class Ground:
    """A tree, a controller that changes it, and a broker whose queries are answered when the test says so."""

    def __init__(self, secret="s"):
        self.tree = Tree()
        self.controller = self.tree.session()
        self.session = self.tree.session()
        self.pending = []
        self.asked = 0
        self.mirror = TokenMirror(self._submit, secret)
        self._number = 0
        self.expected = {}
        self.mirror.start()

    def _submit(self, operations, then):
        self.asked += len(operations)
        self.pending.append((operations, then))

    def step(self):
        """Answer the oldest query, or deliver what the watch heard."""
        if self.pending:
            operations, then = self.pending.pop(0)
            then(self.session.apply(operations))
        for path in self.session.events():
            self.mirror.changed(path)

    def settle(self):
        self.step()
        while self.pending:
            self.step()

    def lose_session(self):
        self.tree.expire(self.session.session)
        lost, self.pending = self.pending, []
        for _, then in lost:
            then(StoreResult("unknown"))
        self.session = self.tree.session()
        self.mirror.start()

    def put(self, token_id, end):
        if not self._number:
            nodes = (tree.DELEGATION_TOKEN, tree.DELEGATION_TOKENS, tree.DELEGATION_TOKEN_CHANGES)
            assert self.controller.apply([Create(path) for path in nodes]).outcome == "ok"
        path, data = tree.delegation_token_path(token_id), tree.format_delegation_token(token(token_id, end))
        self._write(token_id, Write(path, data) if token_id in self.expected else Create(path, data))
        self.expected[token_id] = end

    def remove(self, token_id):
        if self.expected.pop(token_id, None) is not None:
            self._write(token_id, Delete(tree.delegation_token_path(token_id)))

    def _write(self, token_id, change):
        notification = Create(tree.delegation_token_change_path(self._number), token_id.encode())
        assert self.controller.apply([change, notification]).outcome == "ok"
        self.controller.apply([Delete(tree.delegation_token_change_path(self._number - KEPT))])
        self._number += 1

    def mirrored(self):
        return {each.id: each.expires_ms for each in self.mirror.table}


def test_a_broker_without_a_secret_reads_nothing():
    ground = Ground(secret=None)
    ground.mirror.changed(tree.DELEGATION_TOKEN)
    assert ground.asked == 0


def test_a_change_is_read_alone():
    ground = Ground()
    for n in range(50):
        ground.put(f"id-{n}", 10)
    ground.settle()
    assert len(ground.mirrored()) == 50
    ground.asked = 0
    ground.put("id-7", 20)
    ground.settle()
    assert ground.mirrored()["id-7"] == 20
    assert ground.asked < 10


@pytest.mark.parametrize("looks", [True, False])
def test_a_change_is_found_after_another_program_removed_all_notifications(looks):
    """Then the controller numbers from 0 again. `looks`: the broker has seen that there were none."""
    ground = Ground()
    for end in (10, 20):
        ground.put("a", end)
        ground.settle()
    ground.controller.apply([Delete(tree.delegation_token_change_path(number)) for number in range(2)])
    if looks:
        ground.settle()
    ground._number = 0
    path, data = tree.delegation_token_path("a"), tree.format_delegation_token(token("a", 30))
    ground._write("a", Write(path, data))
    ground.settle()
    assert ground.mirrored() == {"a": 30}


def test_a_malformed_node_is_no_token_until_it_is_mended():
    ground = Ground()
    ground.put("a", 10)
    ground.settle()
    ground._write("a", Write(tree.delegation_token_path("a"), b"nonsense"))
    ground.settle()
    assert ground.mirrored() == {}
    ground.put("a", 20)
    ground.settle()
    assert ground.mirrored() == {"a": 20}


IDS = st.sampled_from("abc")
ACTIONS = st.one_of(
    st.tuples(st.just("put"), IDS, st.integers(1, 99)),
    st.tuples(st.just("remove"), IDS),
    st.tuples(st.just("step")),
    st.tuples(st.just("lose_session")),
)


@given(st.lists(ACTIONS, max_size=40))
def test_in_the_end_the_mirror_has_what_stands_in_the_tree(actions):
    ground = Ground()
    for name, *arguments in actions:
        getattr(ground, name)(*arguments)
    ground.settle()
    assert ground.mirrored() == ground.expected
