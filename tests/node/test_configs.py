"""The mirror of `/config` against the tree itself: whatever happens, in the end it says what stands there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.quotas import entity_path
from tidelog.controller import tree
from tidelog.node.configs import ConfigMirror
from tidelog.ports import Create, Delete, StoreResult, Write
from tidelog.sim.store import Tree

KEPT = 3
"""Notifications that this controller keeps."""


def quotas_of(mirror):
    return [found for path in mirror.entities() if (found := mirror.quota(path)) is not None]


class Ground:
    """A tree, a controller that changes it, and a broker whose queries are answered when the test says so."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.controller = self.tree.session()
        self.session = self.tree.session()
        self.pending = []
        self.topics_told, self.brokers_told, self.quotas_told = [], 0, []
        self.mirror = ConfigMirror(
            self._submit,
            on_topic=self.topics_told.append,
            on_broker=self._broker_told,
            on_quota=self._quota_told,
            on_quotas=lambda: None,
        )
        self._number = 0
        self._configs: dict[str, dict[str, str]] = {}
        self._deleted = set()
        self.mirror.start()

    def _submit(self, operations, then) -> None:
        self.pending.append((operations, then))

    def _quota_told(self, entity, quotas) -> None:
        self.quotas_told.append((entity, quotas))

    def _broker_told(self) -> None:
        self.brokers_told += 1

    def step(self) -> None:
        """Answer the oldest query, or deliver what the watch heard."""
        if self.pending:
            operations, then = self.pending.pop(0)
            then(self.session.apply(operations))
        for path in self.session.events():
            self.mirror.changed(path)

    def settle(self) -> None:
        self.step()
        while self.pending:
            self.step()

    def lose_session(self) -> None:
        self.tree.expire(self.session.session)
        lost, self.pending = self.pending, []
        for _, then in lost:
            then(StoreResult("unknown"))
        self.session = self.tree.session()
        self.mirror.start()

    def create(self, topic: str, overrides: dict[str, str]) -> None:
        if f"topics/{topic}" not in self._configs:
            if topic in self._deleted:
                self.settle()  # what comes back under its old name before anybody looked is not told
            self._configs[f"topics/{topic}"] = overrides
            self.controller.apply([Create(tree.topic_config_path(topic), tree.format_config(overrides))])

    def delete(self, topic: str) -> None:
        if self._configs.pop(f"topics/{topic}", None) is not None:
            self._deleted.add(topic)
            self.controller.apply([Delete(tree.topic_config_path(topic))])

    def alter(self, entity: str, overrides: dict[str, str]) -> None:
        if entity.startswith("topics/") and entity not in self._configs:
            return
        path, data = f"{tree.CONFIG}/{entity}", tree.format_config(overrides)
        if "/clients/" in entity and entity not in self._configs:
            user = entity.partition("/clients/")[0]
            self.controller.apply([Create(f"{tree.CONFIG}/{user}")])
            self.controller.apply([Create(f"{tree.CONFIG}/{user}/clients")])
        write = Write(path, data, -1) if entity in self._configs else Create(path, data)
        self._configs[entity] = overrides
        self.controller.apply([write])
        self.controller.apply([Create(tree.config_change_path(self._number), tree.format_config_change(entity))])
        self.controller.apply([Delete(tree.config_change_path(self._number - KEPT))])
        self._number += 1

    def expected(self) -> dict[str, dict[str, str]]:
        return {entity: overrides for entity, overrides in self._configs.items() if overrides}

    def mirrored(self) -> dict[str, dict[str, str]]:
        topics = {f"topics/{name}": self.mirror.topic(name) for name in "abc"}
        others = {"brokers/<default>": self.mirror.broker(None), "brokers/1": self.mirror.broker(1)}
        others["groups/a%2Fb"] = self.mirror.group("a/b")
        quotas = {
            entity_path(entity): {name: f"{value:g}" for name, value in values.items()}
            for entity, values in quotas_of(self.mirror)
        }
        return {entity: overrides for entity, overrides in {**topics, **others, **quotas}.items() if overrides}


def test_a_change_is_mirrored_and_reported_once():
    ground = Ground()
    ground.create("a", {"retention.ms": "1"})
    ground.settle()
    ground.topics_told.clear()
    ground.alter("topics/a", {"retention.ms": "2"})
    ground.alter("brokers/<default>", {"log.retention.ms": "3"})
    ground.settle()
    assert ground.mirror.topic("a") == {"retention.ms": "2"}
    assert ground.mirror.broker(None) == {"log.retention.ms": "3"}
    assert (ground.topics_told, ground.brokers_told) == (["a"], 1)


def test_a_topic_that_is_not_held_here_is_mirrored_too():
    ground = Ground()
    ground.settle()
    ground.create("a", {"retention.ms": "1"})
    ground.settle()
    assert ground.mirror.topic("a") == {"retention.ms": "1"}
    ground.delete("a")
    ground.settle()
    assert ground.mirror.topic("a") == {}


@pytest.mark.parametrize("looks", [True, False])
def test_a_change_is_found_after_another_program_removed_all_notifications(looks):
    """Then the controller numbers from 0 again. `looks`: the broker has seen that there were none."""
    ground = Ground()
    ground.create("a", {})
    for value in ("1", "2"):
        ground.alter("topics/a", {"retention.ms": value})
        ground.settle()
    ground.controller.apply([Delete(tree.config_change_path(number)) for number in range(2)])
    if looks:
        ground.settle()
    ground._number = 0
    ground.alter("topics/a", {"retention.ms": "3"})
    ground.settle()
    assert ground.mirror.topic("a") == {"retention.ms": "3"}


def test_more_changes_than_are_kept_are_all_found():
    ground = Ground()
    for topic in "abc":
        ground.create(topic, {})
    ground.settle()
    for value in range(2 * KEPT):
        for topic in "abc":
            ground.alter(f"topics/{topic}", {"retention.ms": str(value)})
    ground.settle()
    assert [ground.mirror.topic(topic)["retention.ms"] for topic in "abc"] == [str(2 * KEPT - 1)] * 3


def test_what_happened_between_two_sessions_is_read():
    ground = Ground()
    ground.create("a", {"retention.ms": "1"})
    ground.settle()
    ground.session.apply([])
    ground.tree.expire(ground.session.session)
    ground.alter("topics/a", {})
    ground.lose_session()
    ground.settle()
    assert ground.mirror.topic("a") == {}


def test_quotas_are_reported_and_their_entities_named():
    ground = Ground()
    ground.settle()
    ground.alter("users/u%2F/clients/<default>", {"producer_byte_rate": "1024"})
    ground.alter("ips/10.0.0.1", {"connection_creation_rate": "ten"})
    ground.settle()
    assert quotas_of(ground.mirror) == [
        ({"ip": "10.0.0.1"}, {}),
        ({"user": "u/", "client-id": None}, {"producer_byte_rate": 1024.0}),
    ]


TOPICS = st.sampled_from("abc")
OVERRIDES = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
ENTITIES = st.sampled_from(
    [
        *("topics/a", "topics/b", "topics/c", "brokers/<default>", "brokers/1", "groups/a%2Fb"),
        *("clients/c", "ips/<default>", "users/<default>/clients/c", "users/u%2F/clients/<default>"),
    ]
)
ACTIONS = st.one_of(
    st.tuples(st.just("create"), TOPICS, OVERRIDES),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("alter"), ENTITIES, OVERRIDES),
    st.tuples(st.just("step")),
    st.tuples(st.just("lose_session")),
)


@given(st.lists(ACTIONS, max_size=40))
def test_in_the_end_the_mirror_says_what_stands_in_the_tree(actions):
    ground = Ground()
    for name, *arguments in actions:
        getattr(ground, name)(*arguments)
    ground.settle()
    assert ground.mirrored() == ground.expected()


def test_only_quotas_that_changed_are_reported():
    """All were, so each change made the quotas of every user anew in one turn."""
    ground = Ground()
    for name in ("alice", "bob"):
        ground.alter(f"users/{name}", {"producer_byte_rate": "1"})
    ground.settle()
    ground.quotas_told.clear()
    ground.alter("users/bob", {"producer_byte_rate": "2", "SCRAM-SHA-256": "salt=x"})
    ground.settle()
    assert ground.quotas_told == [({"user": "bob"}, {"producer_byte_rate": 2.0})]
