"""The import hook: other code in a module's place, only within, and no file is changed."""

import ast
import importlib
import sys

import pytest

from tidelog.sim.mutants.drawn.drawing import known_types, mutated, sites
from tidelog.sim.mutants.drawn.importing import REACHED, probed, probed_code, substituted

SOURCE = "def is_less(a, b):\n    return a < b\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that nobody has imported."""
    (tmp_path / "drawn_example.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "drawn_example"
    sys.modules.pop("drawn_example", None)


def make(source, path):
    known = known_types({})
    site = next(site for site in sites("m", source, known) if site.operator == "neighbour")
    return mutated(source, site, known).code(path)


def test_a_module_that_is_imported_within_is_the_mutant(module, tmp_path):
    with substituted({module: make}):
        assert importlib.import_module(module).is_less(1, 1)
        assert importlib.import_module("json.tool")
    assert (tmp_path / "drawn_example.py").read_text() == SOURCE
    assert not any("Substitutes" in repr(finder) for finder in sys.meta_path)


def test_afterwards_the_module_is_what_its_file_holds(module):
    with substituted({module: make}):
        importlib.import_module(module)
    del sys.modules[module]
    found = importlib.import_module(module)
    assert not found.is_less(1, 1)
    assert found.is_less(1, 2)


def test_a_compiled_module_does_not_stand_in_the_way(module):
    importlib.import_module(module)
    del sys.modules[module]
    with substituted({module: make}):
        assert importlib.import_module(module).is_less(1, 1)


def test_a_module_that_was_imported_before_is_refused(module):
    importlib.import_module(module)
    with pytest.raises(ImportError, match="drawn_example: imported before"), substituted({module: make}):
        pass


def test_probes_report_which_blocks_run():
    source = (
        "def f(a):\n"
        '    """Says."""\n'
        "    if a:\n"
        "        return 1\n"
        "    for _ in ():\n"
        "        pass\n"
        "    def inner():\n"
        "        return 2\n"
        "    return inner\n"
    )
    reached = []
    names = {REACHED: reached.append}
    exec(probed_code("m", source, "m.py"), names)
    assert names["f"](1) == 1
    assert reached == ["m:3", "m:4"]
    reached.clear()
    assert names["f"](0)() == 2
    assert reached == ["m:3", "m:8"]


def test_every_site_is_in_a_block_that_has_a_probe():
    source = (
        "def f(a):\n    try:\n        a += 1\n    except ValueError:\n        a += 2\n    finally:\n        a += 3\n"
        "    match a:\n        case 4:\n            a += 5\n    with a:\n        return [x + 6 for x in a if x < 7]\n"
    )
    text = ast.unparse(probed("m", source))
    found = sites("m", source, known_types({}))
    assert {site.block for site in found} == {2, 3, 5, 7, 10, 12}
    for site in found:
        assert f"{REACHED}('m:{site.block}')" in text
