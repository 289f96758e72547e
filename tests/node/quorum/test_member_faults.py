"""Five nodes of a metadata quorum, three of which vote, through kills, power cuts, pauses and broken networks.

What was answered `ok` is in every tree in the end, what was read behind a change has it, all trees are equal, and every
node has a session again.
"""

from random import Random

import pytest

from tests.node.quorum.member_world import MemberWorld
from tidelog.ports import Create, Read
from tidelog.quorum.options import DEFAULTS
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.quorum.machines import Network

STEPS = 100
WITH_SNAPSHOTS = {
    "snapshot_bytes": 2_000,
    "options": DEFAULTS._replace(retention_bytes=1, fetch_bytes=4_096, snapshot_bytes=700),
}


class Run:
    def __init__(self, seed):
        self.random = Random(f"members {seed}")
        draw = self.random.choice
        self.world = MemberWorld(self.random, **draw(({}, WITH_SNAPSHOTS)))
        self.world.network = Network(loss=draw((0.0, 0.0, 0.01, 0.1)), tail_chance=draw((0.0, 0.01, 0.1)))
        self.world.sync_delay = (100, draw((1, 20, 300)) * MILLI)
        self.machines = self.world.machines[:5]
        for machine in self.machines:
            self.world.start(machine)
        self.pending = []
        self.outcomes = {}

    def step(self):
        world, machine = self.world, self.random.choice(self.machines)
        chance = self.random.random()
        if chance < 0.5:
            self.write(machine)
        elif chance < 0.56:
            world.kill(machine)
            world.revive(machine)
        elif chance < 0.6:
            world.lose_power(machine)
            world.revive(machine)
        elif chance < 0.66 and machine.quorum is not None:
            machine.paused_until = world.micros + self.random.choice((300, 3_000, 15_000)) * MILLI
        elif chance < 0.78:
            other = self.random.choice(self.machines)
            world.network.cut.add((machine.id, other.id))
            if self.random.random() < 0.6:
                world.network.cut.add((other.id, machine.id))
        elif chance < 0.88:
            world.network.cut.clear()
        world.run(self.random.choice((1, 5, 20, 100, 400, 2_000)) * MILLI)
        self.note()

    def write(self, machine):
        process = machine.quorum
        if process is None or not process.session or machine.paused_until > self.world.micros:
            return
        path = f"/cluster/{len(self.outcomes)}-{len(self.pending)}-{self.world.micros}"
        tokens = [self.world.submit(machine, [operation]) for operation in (Create(path), Read(path))]
        self.pending.append((path, machine, process, process.sessions, *tokens))

    def note(self):
        """Take the results of this life and session; others will have none."""
        waiting, self.pending = self.pending, []
        for path, machine, process, session, written, read in waiting:
            if written in process.results and read in process.results:
                self.outcomes[path] = process.results[written].outcome
                assert self.outcomes[path] in ("ok", "unknown"), path
                if self.outcomes[path] == "ok":
                    assert process.results[read].outcome == "unknown" or process.results[read].values[0] is not None
            elif machine.quorum is process and process.session and process.sessions == session:
                self.pending.append((path, machine, process, session, written, read))

    def heal(self):
        world = self.world
        world.network, world.sync_delay = Network(), (100, 2_000)
        for machine in self.machines:
            machine.paused_until = min(machine.paused_until, world.micros)
            world.power_on(machine)
        world.until(world.leader, 10 * SECOND)
        world.run(15 * SECOND)  # longer than a session: what a node missed ends it by then
        world.until(self.is_settled)

    def is_settled(self):
        self.note()
        members = [each.quorum.member for each in self.machines]
        return (
            all(each.session for each in members)
            and len({each.local.applied for each in members}) == 1
            and not self.pending
        )

    def check(self):
        trees = [machine.quorum.member.local.tree for machine in self.machines]
        for tree in trees:
            tree.check_invariants()
            assert tree.nodes == trees[0].nodes
            assert tree.sessions == trees[0].sessions
        assert sorted(each.broker_id for each in trees[0].sessions.values()) == [0, 1, 2, 3, 4]
        acknowledged = {path for path, outcome in self.outcomes.items() if outcome == "ok"}
        assert acknowledged
        assert acknowledged <= set(trees[0].nodes)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_stays(seed):
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.heal()
    run.check()
