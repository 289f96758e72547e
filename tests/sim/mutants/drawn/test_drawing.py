"""The draw: all sites of the tree, and by one seed always the same of them."""

import pytest

from tidelog.cli.simulate.drawn.source_tree import this_tree
from tidelog.sim.mutants.drawn.drawing import draw, is_target, known_types, mutated, sites
from tidelog.sim.mutants.drawn.equivalents import EQUIVALENTS
from tidelog.sim.mutants.drawn.operators import OPERATORS

SOURCE = """\
class Log:
    def end(self, offset):
        if offset < self.start:
            return 0
        return (
            self.last
            + 1
        )

    def trim(self, offset):
        def inner(low):
            return low or offset
        return inner(0)
"""


@pytest.fixture(scope="module")
def sources():
    return this_tree().sources


@pytest.fixture(scope="module")
def everything(sources):
    known = known_types(sources)
    return [site for module in sorted(sources) for site in sites(module, sources[module], known)]


def test_a_site_names_where_it_is():
    found = sites("m", SOURCE, known_types({"m": SOURCE}))
    assert [(site.function, site.what, site.line, site.text, site.nth) for site in found] == [
        ("Log.end", "drop branch: never", 3, "if offset < self.start:", 0),
        ("Log.end", "negate: < to >=", 3, "if offset < self.start:", 0),
        ("Log.end", "neighbour: < to <=", 3, "if offset < self.start:", 0),
        ("Log.end", "constant: 0 to 1", 4, "return 0", 0),
        ("Log.end", "constant: 0 to -1", 4, "return 0", 0),
        ("Log.end", "constant: 1 to 2", 7, "+ 1", 0),
        ("Log.end", "constant: 1 to 0", 7, "+ 1", 0),
        ("Log.trim", "constant: 0 to 1", 13, "return inner(0)", 0),
        ("Log.trim", "constant: 0 to -1", 13, "return inner(0)", 0),
        ("Log.trim.inner", "logic: or to and", 12, "return low or offset", 0),
    ]
    assert [site.number for site in found] == list(range(len(found)))
    assert {site.block for site in found} == {3, 4, 11, 12}
    assert found[0].where == "m:Log.end"


def test_equal_changes_on_one_line_have_numbers():
    source = "def f(a):\n    return a[1] + a[1]"
    found = [site for site in sites("m", source, known_types({})) if site.change == "1 to 2"]
    assert [(site.text, site.nth) for site in found] == [("return a[1] + a[1]", 0), ("return a[1] + a[1]", 1)]


def test_a_mutation_shows_what_it_changes():
    known = known_types({"m": SOURCE})
    shown = [(made.before, made.after) for site in sites("m", SOURCE, known) for made in [mutated(SOURCE, site, known)]]
    assert shown[:4] == [
        ("if offset < self.start:", "if offset < self.start and False:"),
        ("if offset < self.start:", "if offset >= self.start:"),
        ("if offset < self.start:", "if offset <= self.start:"),
        ("return 0", "return 1"),
    ]


def test_of_a_long_statement_the_part_that_is_changed_is_shown():
    source = f"def f(a):\n    return g({'a, ' * 60}a < 1, a if a else 2)"
    known = known_types({})
    shown = [(made.before, made.after) for site in sites("m", source, known) for made in [mutated(source, site, known)]]
    assert ("a < 1", "a <= 1") in shown
    assert ("a if a else 2", "2") in shown


def test_code_of_a_mutation_keeps_the_lines():
    source = "def f(a):\n    if a < 1:\n        g()\n    raise ValueError"
    known = known_types({})
    drop = next(site for site in sites("m", source, known) if site.operator == "drop call")
    module = {}
    exec(mutated(source, drop, known).code("m.py"), module)
    with pytest.raises(ValueError) as raised:
        module["f"](0)
    assert raised.tb.tb_next.tb_lineno == 4


def test_one_seed_draws_the_same_mutants_and_another_one_others(sources):
    few = {module: source for module, source in sources.items() if ".partition." in module}
    first, again, other = draw(few, 50, 1), draw(dict(reversed(few.items())), 50, 1), draw(few, 50, 2)
    assert first == again
    assert len({(site.module, site.number) for site in first}) == 50
    assert first != other


def test_few_sites_are_all_drawn():
    assert len(draw({"m": SOURCE}, 1000, 0)) == 10


def test_the_targets_are_what_replicates(sources):
    packages = {".".join(module.split(".")[1:3]) for module in sources}
    assert {"partition.leader", "log.epochs", "controller.leaders", "coordinator.shard", "api.records"} <= packages
    assert {module for module in sources if ".node." in module} == {
        "tidelog.node.fetching",
        "tidelog.node.isr_proposals",
    }
    assert is_target("log/compaction/compactor.py")
    assert not is_target("shell/log/reading.py")
    assert not is_target("api/groups/group_requests.py")


def test_every_operator_finds_sites_in_the_tree(everything):
    assert {site.operator for site in everything} == set(OPERATORS)
    assert len(everything) > 3000


def test_a_site_is_identified_by_its_place_and_its_change(everything):
    keys = {(site.where, site.text, site.what, site.nth, site.line) for site in everything}
    assert len(keys) == len(everything)


def test_mutants_of_the_tree_compile_and_differ(sources, everything):
    known = known_types(sources)
    for site in everything[:: len(everything) // 20]:
        made = mutated(sources[site.module], site, known)
        assert made.before != made.after
        assert made.code("m.py")


def test_every_equivalent_names_a_site_of_the_tree(everything):
    """An entry goes stale when its line changes: read the new one, and keep, change or delete the entry."""
    present = {(site.where, site.text, site.what, site.nth) for site in everything}
    stale = [entry for entry in EQUIVALENTS if (entry.where, entry.line, entry.what, entry.nth) not in present]
    assert stale == []


def test_every_equivalent_has_its_reason_once():
    assert all(entry.why.endswith(".") and len(entry.why) > 20 for entry in EQUIVALENTS)
    keys = [(entry.where, entry.line, entry.what, entry.nth) for entry in EQUIVALENTS]
    assert len(keys) == len(set(keys))
