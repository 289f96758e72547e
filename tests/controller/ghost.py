"""Checks every change of a partition's state in the store, whoever wrote it, against the invariants.

I13 (epochs ascend), I14 (leader in ISR, ISR among the replicas), I17 (a clean election follows rule 8). Rule 8 is
restated here in its own words, from the tree and from what the writer knew of who lives: a death that it could not
have heard of yet does not make its election wrong.
"""

from functools import lru_cache

from tidelog.controller import tree

parsed_assignment = lru_cache(tree.parse_assignment)
"""A topic's node is the same for each of its partitions; a topic of 1,200 would be parsed for each of them."""


class Ghost:
    def __init__(self, store):
        self.store = store
        self.seen = {}
        self.lives = {}
        self.unclean_allowed = False
        self.elections = 0
        self.replicas = {}

    def look(self, lives):
        """After a write by a controller that knows these lives."""
        self.lives = lives
        states = {path: node for path, node in self.store.nodes.items() if path.endswith("/state")}
        for path, node in states.items():
            old = self.seen.get(path)
            if old is None or old.created != node.created:
                self.replicas[path] = self.check_shape(path, tree.parse_state(node.data))
            elif old.version != node.version:
                self.check_change(path, old, node)
        self.seen = states

    def check_shape(self, path, state):
        _, _, _, topic, _, partition, _ = path.split("/")
        replicas = parsed_assignment(self.store.nodes[tree.topic_path(topic)].data).replicas[int(partition)]
        assert state.leader == -1 or state.leader in state.isr, (path, state)
        assert set(state.isr) <= set(replicas), (path, state)
        assert state.isr or (state.leader == -1 and state.recorded), (path, state)
        assert not set(state.elr) & set(state.isr), (path, state)
        assert {*state.elr, *state.last_known} <= set(replicas), (path, state)
        assert len(set(state.isr)) == len(state.isr) == len(state.isr_epochs), (path, state)
        return replicas

    def check_change(self, path, old_node, node):
        assert node.version == old_node.version + 1, (path, old_node, node)
        old, new = tree.parse_state(old_node.data), tree.parse_state(node.data)
        before, replicas = self.replicas[path], self.check_shape(path, new)
        self.replicas[path] = replicas
        assert new.controller_epoch >= old.controller_epoch, (path, old, new)
        assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1), (path, old, new)
        if new.leader != old.leader:
            assert new.leader_epoch == old.leader_epoch + 1, (path, old, new)
        if new.leader_epoch != old.leader_epoch:
            self.elections += 1
            if not set(before) <= set(replicas):
                self.check_narrowed(path, old, new, replicas)
            elif new.leader != -1 and not self.unclean_allowed:
                self.check_election(path, old, new, replicas)

    def check_narrowed(self, path, old, new, replicas):
        """Replicas were taken away: who stays in sync stays so (I32), and the leader, too, if it may."""
        if self.unclean_allowed:
            return
        assert new.isr == tuple(b for b in old.isr if b in replicas), (path, old, new, replicas)
        if old.leader in replicas:
            assert new.leader == old.leader, (path, old, new, replicas)

    def check_election(self, path, old, new, replicas):
        brokers = {id_: (life.epoch, life.clean_epoch) for id_, life in self.lives.items()}

        def counting_of(recorded):
            return [b for b in replicas if b in brokers and recorded.get(b, -1) >= 0 and recorded[b] in brokers[b]]

        counting = counting_of(old.members)
        if old.elr and all(self.lives[b].leaving for b in counting):
            counting = [b for b in counting_of(old.eligible) if not self.lives[b].leaving][:1] or counting
        if not counting:
            # Nobody counts: all recorded members must be back, and one of them leads alone.
            assert set(old.recorded) <= set(brokers), (path, old, new, brokers)
            assert new.isr == (new.leader,), (path, old, new)
            assert new.leader in old.recorded, (path, old, new)
            return
        assert new.leader in counting, (path, old, new, brokers)
        assert set(new.isr) <= set(counting), (path, old, new, brokers)
        if new.isr != old.isr:  # else a preferred election, or a member that came again
            first = next(broker for broker in replicas if broker in new.isr)
            assert new.leader == first, (path, old, new, brokers)
