"""One command at a time against the store, whatever becomes of a multi."""

from itertools import chain

import pytest

from tidelog.controller import tree
from tidelog.controller.journal import CHUNK, MAX_ATTEMPTS, MAX_OVERTAKING, SLICE, Command, Journal, pack, submit
from tidelog.ports import Check, Create, Delete, Read, StoreResult, Write
from tidelog.sim.store import Tree


class Runner:
    """A journal over the simulator's store; `fates` are what becomes of the next lists of operations."""

    def __init__(self):
        self.tree = Tree()
        self.session = self.tree.session()
        self.journal = Journal(self.tree.nodes[tree.CONTROLLER_EPOCH].version)
        self.now = 0
        self.sent = []

    def run(self, *fates):
        fates = list(fates)
        for _ in range(200):
            operations = self.journal.take()
            if operations is None:
                if self.journal.retry_at is None:
                    return self.journal.finished
                self.now = self.journal.retry_at
                self.journal.wake(self.now)
                continue
            self.sent.append(operations)
            fate = fates.pop(0) if fates else "ok"
            result = StoreResult("unknown") if fate == "lost" else self.session.apply(operations)
            if fate == "answer lost":
                result = StoreResult("unknown")
            self.journal.result(result, self.now)
            if self.journal.deposed or self.journal.stale:
                return self.journal.finished
        raise AssertionError("the journal does not come to rest")


def creating(path, data=b"x"):
    def start():
        (node,) = yield [Create(path, data)]
        return node.version

    return start


def test_a_command_returns_what_its_steps_return():
    runner = Runner()
    runner.journal.submit(Command("a", creating("/admin/a"), token=7))
    ((command, answer),) = runner.run()
    assert (command.token, answer) == (7, 0)
    assert runner.sent == [[Check(tree.CONTROLLER_EPOCH, 0), Create("/admin/a", b"x")]]


def test_many_commands_that_need_no_store_give_way_to_other_inputs():
    journal, ran = Journal(0), []

    def counting(number):
        def start():
            ran.append(number)
            return
            yield

        return start

    for number in range(3 * SLICE):
        journal.submit(Command("a", counting(number)))
    for turn in (1, 2, 3):
        assert journal.take() is None
        assert len(ran) == turn * SLICE
        assert journal.is_paused == (turn < 3)
        journal.wake(0)
    assert ran == [*range(3 * SLICE)]


def test_commands_run_in_order_and_what_is_urgent_goes_before():
    runner = Runner()
    for name in ("a", "b"):
        runner.journal.submit(Command(name, creating(f"/admin/{name}")))
    for name in ("d", "e"):
        runner.journal.submit(Command(name, creating(f"/admin/{name}")), urgent=True)
    runner.journal.submit(Command("c", creating("/admin/c")), first=True)
    assert [command.name for command, _ in runner.run()] == ["c", "d", "e", "a", "b"]


@pytest.mark.parametrize("fates", [("lost",), ("answer lost",), ("lost", "lost"), ("answer lost", "lost", "lost")])
def test_an_unknown_outcome_is_resolved_by_reading(fates):
    runner = Runner()
    runner.tree.nodes["/admin/w"] = runner.tree.nodes["/admin"]

    def start():
        created, written = yield [Create("/admin/a", b"1"), Write("/admin/w", b"2", 0)]
        return created.version, written.version

    runner.journal.submit(Command("a", start))
    ((_, answer),) = runner.run(*fates)
    assert answer == (0, 1)
    assert runner.tree.nodes["/admin/w"].version == 1


@pytest.mark.parametrize("fate", ["lost", "answer lost"])
def test_an_unknown_delete_is_resolved_by_reading(fate):
    runner = Runner()
    runner.session.apply([Create("/admin/a")])

    def start():
        yield [Delete("/admin/a")]
        return "gone"

    runner.journal.submit(Command("a", start))
    ((_, answer),) = runner.run(fate)
    assert answer == "gone"
    assert "/admin/a" not in runner.tree.nodes


def test_an_unknown_query_is_asked_again():
    runner = Runner()

    def start():
        (node,) = yield [Read("/admin")]
        return node is not None

    runner.journal.submit(Command("a", start))
    ((_, answer),) = runner.run("lost", "lost")
    assert answer is True


@pytest.mark.parametrize("fate", ["ok", "lost"])
def test_a_raised_controller_epoch_deposes(fate):
    runner = Runner()
    runner.session.apply([Write(tree.CONTROLLER_EPOCH, b"2", 0)])
    runner.journal.submit(Command("a", creating("/admin/a")))
    assert runner.run(fate) == []
    assert runner.journal.deposed
    assert "/admin/a" not in runner.tree.nodes
    assert len(runner.sent) == (1 if fate == "ok" else 2), "what was lost is looked for, and not written again"


def test_a_multi_that_went_through_before_the_deposition_counts():
    """The answer was lost and then another controller came: what was written is written."""
    runner = Runner()
    runner.journal.submit(Command("a", creating("/admin/a")))
    operations = runner.journal.take()
    runner.session.apply(operations)
    runner.journal.result(StoreResult("unknown"), 0)
    runner.session.apply([Write(tree.CONTROLLER_EPOCH, b"2", 0)])
    ((_, answer),) = runner.run()
    assert answer == 0


def test_any_other_conflict_means_that_the_image_is_stale():
    runner = Runner()
    runner.session.apply([Create("/admin/a")])
    runner.journal.submit(Command("a", creating("/admin/a")))
    for attempt in range(1, MAX_ATTEMPTS):
        assert runner.run() == []
        assert runner.journal.stale
        assert runner.journal.first[0].attempts == attempt
        runner.journal.stale = False
    ((command, answer),) = runner.run()
    assert (command.name, answer) == ("a", None)


def test_steps_without_operations_go_on_at_once():
    runner = Runner()

    def start():
        values = yield []
        assert values == ()
        yield from submit([])
        return "done"

    runner.journal.submit(Command("a", start))
    assert runner.run()[0][1] == "done"
    assert runner.sent == []


def test_groups_are_packed_whole():
    groups = [[Create(f"/{n}/a"), Create(f"/{n}/b"), Create(f"/{n}/c")] for n in range(CHUNK)]
    packed = list(pack([[], *groups]))
    assert list(chain(*packed)) == list(chain(*groups))
    assert all(len(multi) <= CHUNK for multi in packed)
    assert all(len(multi) % 3 == 0 for multi in packed)
    assert len(packed) == -(-len(groups) // (CHUNK // 3))


def test_what_an_operator_asks_waits_for_a_few_urgent_commands_only():
    """Seed 1002574: on a slow store in-sync sets changed without end, and no topic could be created."""
    journal, ran = Journal(0), []

    def named(name, again=False):
        def start():
            ran.append(name)
            if again and len(ran) < 50:
                journal.submit(Command("urgent", named("urgent", again=True)), urgent=True)
            return
            yield

        return start

    journal.submit(Command("asked", named("asked")))
    journal.submit(Command("urgent", named("urgent", again=True)), urgent=True)
    journal.submit(Command("reaction", named("reaction")), first=True)
    journal.take()
    assert ran.index("reaction") == 0
    assert ran.index("asked") == 1 + MAX_OVERTAKING
