"""The mirror of the cluster's ACLs against the tree itself: in the end it decides as what is stored says."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller import acl_tree
from tidelog.node import mirror
from tidelog.node.security.acl_mirror import AclMirror
from tidelog.ports import Create, Delete, Read, StoreResult, Write
from tidelog.security.acls import (
    Acl,
    AclIndex,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.sim.store import Tree

KEPT = 3
"""Notifications that this controller keeps."""
PATTERNS = [
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
    ResourcePattern(ResourceType.TOPIC, "*", PatternType.LITERAL),
    ResourcePattern(ResourceType.GROUP, "a/b", PatternType.LITERAL),
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.PREFIXED),
]
ACLS = [Acl(f"User:{name}", "*", AclOperation.READ, Permission.ALLOW) for name in ("alice", "bob")]


class Ground:
    """A tree, a controller that changes it, and a broker whose queries are answered when the test says so."""

    def __init__(self):
        self.tree = Tree()
        self.controller = self.tree.session()
        self.session = self.tree.session()
        self.pending, self.effects, self.changes, self.started = [], [], 0, 0
        self.mirror = AclMirror(self._submit, self.effects, self._changed)
        self.reads = []
        self.index = None
        self.numbers = dict.fromkeys(acl_tree.CHANGES, 0)
        self.stored = {}
        self.start()

    def start(self):
        self.mirror.start(self._started)

    def _submit(self, operations, then):
        self.pending.append((operations, then))
        self.reads += [operation.path for operation in operations if isinstance(operation, Read)]

    def _started(self):
        self.started += 1

    def _changed(self, index: AclIndex):
        self.index = index
        self.changes += 1

    def step(self):
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
        self.start()

    def write(self, pattern, acls, content=None):
        for path in acl_tree.skeleton():
            self.controller.apply([Create(path)])
        path, data = acl_tree.pattern_path(pattern), content or acl_tree.format_acls(acls)
        if acls or content:
            change = Write(path, data) if pattern in self.stored else Create(path, data)
        elif pattern in self.stored:
            change = Delete(path)
        else:
            return
        self.stored.pop(pattern, None)
        if acls or content:
            self.stored[pattern] = tuple(acls)
        kind = pattern.pattern_type
        notification = Create(acl_tree.change_path(kind, self.numbers[kind]), acl_tree.format_change(pattern))
        assert self.controller.apply([change, notification]).outcome == "ok"
        self.controller.apply([Delete(acl_tree.change_path(kind, self.numbers[kind] - KEPT))])
        self.numbers[kind] += 1

    def mirrored(self):
        found = {}
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            for name in ("t", "*", "a/b", "tea"):
                for pattern, acl in self.index.about(kind, name):
                    found.setdefault(pattern, set()).add(acl)
        return found


def test_acls_that_are_there_are_loaded_before_the_broker_registers():
    ground = Ground()
    for pattern in PATTERNS:
        ground.write(pattern, ACLS)
    assert (ground.index, ground.started) == (None, 0)
    ground.settle()
    assert ground.mirrored() == {pattern: set(ACLS) for pattern in PATTERNS}
    assert ground.started == 1


def test_a_change_reads_only_what_changed():
    ground = Ground()
    for pattern in PATTERNS:
        ground.write(pattern, ACLS)
    ground.settle()
    ground.write(PATTERNS[0], ACLS[:1])
    ground.write(PATTERNS[3], [])
    ground.reads.clear()
    ground.settle()
    assert ground.mirrored()[PATTERNS[0]] == {ACLS[0]}
    assert PATTERNS[3] not in ground.mirrored()
    resources = [path for path in ground.reads if "acl_changes" not in path]
    assert resources == [acl_tree.pattern_path(PATTERNS[0]), acl_tree.pattern_path(PATTERNS[3])]
    assert (ground.started, ground.changes) == (1, 2)


def test_more_changes_than_are_kept_are_all_found():
    ground = Ground()
    ground.settle()
    for pattern in PATTERNS * KEPT:
        ground.write(pattern, ACLS)
    ground.settle()
    assert ground.mirrored() == {pattern: set(ACLS) for pattern in PATTERNS}


def test_a_change_is_found_after_another_program_removed_all_notifications():
    """Kafka 3's tool removes those that are older than 15 minutes; then numbers begin anew."""
    ground = Ground()
    ground.write(PATTERNS[0], ACLS)
    ground.settle()
    ground.controller.apply([Delete(acl_tree.change_path(PatternType.LITERAL, 0))])
    ground.settle()
    ground.numbers[PatternType.LITERAL] = 0
    ground.write(PATTERNS[0], ACLS[:1])
    ground.settle()
    assert ground.mirrored() == {PATTERNS[0]: {ACLS[0]}}


def test_acls_that_nobody_can_read_deny_everything():
    """A DENY may have been among them."""
    ground = Ground()
    ground.write(PATTERNS[0], ACLS)
    ground.settle()
    question = ("User:alice", "h", AclOperation.READ, ResourceType.TOPIC, "t")
    assert ground.index.decide(*question).allowed
    ground.write(PATTERNS[0], ACLS, b"?")
    ground.settle()
    assert not ground.index.decide(*question).allowed
    (event,) = [effect for effect in ground.effects if effect.kind == "acls.unreadable"]
    assert event.fields["resource"] == "Topic:LITERAL:t"


def test_a_notification_that_nobody_can_read_has_everything_read():
    ground = Ground()
    ground.write(PATTERNS[0], ACLS)
    ground.settle()
    ground.controller.apply([Create(acl_tree.pattern_path(PATTERNS[1]), acl_tree.format_acls(ACLS))])
    ground.controller.apply([Create(acl_tree.change_path(PatternType.LITERAL, 1), b"?")])
    ground.settle()
    assert set(ground.mirrored()) == set(PATTERNS[:2])


def test_many_resources_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(mirror, "READS", 2)
    ground = Ground()
    for pattern in PATTERNS:
        ground.write(pattern, ACLS)
    ground.settle()
    assert ground.mirrored() == {pattern: set(ACLS) for pattern in PATTERNS}
    assert ground.changes == 1, "nothing is decided by a part of the ACLs"


ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PATTERNS), st.lists(st.sampled_from(ACLS), max_size=2)),
    st.tuples(st.just("step")),
    st.tuples(st.just("lose_session")),
)


@given(st.lists(ACTIONS, max_size=30))
def test_in_the_end_the_mirror_has_what_is_stored(actions):
    ground = Ground()
    for name, *arguments in actions:
        getattr(ground, name)(*arguments)
    ground.settle()
    assert ground.mirrored() == {pattern: set(acls) for pattern, acls in ground.stored.items()}
    assert ground.started >= 1
