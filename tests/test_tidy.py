"""The tree's own rules, as tests: what is named exists, what exists is used, and nothing grows into a giant."""

import ast
import re
import subprocess
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests import tiers
from tidelog.api.registry import APIS
from tidelog.config.broker import BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.config.topic import TopicConfig

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"

CORE = {
    "audit.core",
    "check.history",
    "node",
    "client",
    "api",
    "coordinator",
    "controller",
    "partition",
    "log",
    "wire",
    "config",
}
CORE |= {"model", "errors", "ports", "effects"}

BANNED_IN_THE_CORE = {
    "open": "ports.Disk",
    "print": "effects.Event",
    "input": "an input of the node",
    "hash": "zlib.crc32: hash() of a text differs from process to process",
    "time.time": "the `now` argument",
    "time.monotonic": "the `now` argument",
    "datetime.now": "the `now` argument",
    "datetime.datetime.now": "the `now` argument",
    "random.random": "the randomness that is given",
    "random.Random": "the randomness that is given",
    "uuid.uuid4": "the randomness that is given",
    "secrets.token_bytes": "the randomness that is given",
    "os.urandom": "the randomness that is given",
    "os.environ.get": "an option",
    "logging.getLogger": "effects.Event",
    "subprocess.run": "an effect",
}
"""What the core may not call, and what it takes instead."""

FUNCTION_LINES, FUNCTION_LIMIT, FUNCTION_SHARE = 40, 80, 0.9
FILE_LIMIT = 600
FOLDER_LIMIT = 30

LEFTOVER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b|^(<{7}|>{7}) ")
REGISTRY = re.compile(r"index[-]url|<repositor[y]>|resolved[\"]: *\"http")

LOADED_BY_NAME = {
    "tidelog.cli.main": "the command `tidelog`",
    "tidelog.__main__": "python -m tidelog",
    "tidelog.testing": "users' tests and notebooks",
    "tidelog.frames": "users' programs and notebooks",
    "tidelog.spark.query_metrics": "users' programs, which add it to their session",
    "pytest_tidelog": "pytest, by its entry point",
    "pyspark_tidelog": "PySpark, which imports every pyspark_* module",
    "tidelog.shell.transactions": "programs that write in transactions",
}
"""Modules that nothing in the tree has to import, and who loads them."""


@cache
def _tracked() -> tuple[Path, ...]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]  # the clone may be another user's
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return tuple(path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file())


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _modules() -> dict[str, Path]:
    return {_module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def _named_in_documents() -> Iterator[tuple[Path, str]]:
    code = re.compile(r"`([\w.-]+/[\w./-]*\.?\w+)`")
    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
    for document in _tracked():
        if document.suffix == ".md":
            text = document.read_text(encoding="utf-8")
            for name in code.findall(text) + link.findall(text):
                yield document, name


def test_files_that_documents_name_exist():
    tops = {path.relative_to(ROOT).parts[0] for path in _tracked()} | {
        path.name for path in (SOURCE / "tidelog").iterdir()
    }
    missing = [
        f"{document.relative_to(ROOT)}: {name}"
        for document, name in _named_in_documents()
        if name.split("/")[0] in tops
        and not any((place / name).exists() for place in (ROOT, document.parent, SOURCE / "tidelog", SOURCE))
    ]
    assert missing == []


def test_functions_that_the_architecture_names_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    defined = {path: set(_defined(path)) for path in _modules().values()}
    everywhere = set().union(*defined.values())
    placed = re.findall(r"`([\w/]+\.py)`\s+`(\w+(?:\.\w+)?)`", text)
    missing = [f"{file} {name}" for file, name in placed if name not in defined.get(SOURCE / "tidelog" / file, ())]
    missing += [name for name in re.findall(r"`([A-Z]\w+\.\w+)`", text) if name not in everywhere]
    assert placed
    assert missing == []


def _defined(path: Path) -> Iterator[str]:
    """Functions, classes and, as `Class.method`, methods."""
    for node in _tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef))


def _reached_from(path: Path) -> Iterator[str]:
    """Modules that the file imports, or names in a text from which it imports them at need."""
    package = _module_name(path).split(".") if path.is_relative_to(SOURCE) else []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + (path.name == "__init__.py")]) if node.level else ""
            base = ".".join(filter(None, (start, node.module)))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and (name := _dotted_text(node.value)):
            yield name
            yield f"*.{name}"


def _dotted_text(value: object) -> str:
    """`a.b` of a text "a.b" or "a.b:c", else nothing."""
    match = re.fullmatch(r"(\w+(\.\w+)+)(:\w+)?", value) if isinstance(value, str) else None
    return match[1] if match else ""


def test_every_module_is_reached():
    modules = _modules()
    users = [path for folder in ("src", "scripts", "bench", "demo") for path in (ROOT / folder).rglob("*.py")]
    reached = LOADED_BY_NAME.keys() | {f"tidelog.api.{api.module}" for api in APIS.values()}
    for path in users:
        reached.update(name for name in _reached_from(path) if path != modules.get(name))
    tails = {name[1:] for name in reached if name.startswith("*.")}
    lost = [
        name
        for name, path in modules.items()
        if path.name != "__init__.py" and name not in reached and not any(name.endswith(tail) for tail in tails)
    ]
    assert lost == []


def test_no_leftovers():
    marked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked()
        if path.suffix in {".py", ".md", ".toml", ".txt", ".java", ""}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFTOVER.search(line) or REGISTRY.search(line)
    ]
    assert marked == []


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def test_the_core_calls_nothing_of_the_world():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} calls {name}: take {BANNED_IN_THE_CORE[name]}"
        for module, path in _modules().items()
        if any(f"{module}.".startswith(f"tidelog.{name}.") for name in CORE)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and (name := _dotted(node.func)) in BANNED_IN_THE_CORE
    ]
    assert found == []


def _first_arguments(node: ast.Call) -> tuple[str, str]:
    """The first two arguments, where they are names or texts."""
    given = [each.value if isinstance(each, ast.Constant) else _dotted(each) for each in node.args[:2]]
    return tuple(map(str, [*given, "", ""][:2]))  # type: ignore[return-value]


def _disturbs_or_hangs(node: ast.AST) -> str | None:
    """What a test must do instead of this; None where it may."""
    if isinstance(node, ast.For) and re.search(r"\.(stdout|stderr)$", _dotted(node.iter)):
        return "tests.output.line_with, or lines_of in a thread: a process that says nothing hangs the test"
    if not isinstance(node, ast.Call):
        return None
    name = _dotted(node.func)
    if re.search(r"(?<!\bsys)\.(stdout|stderr)\.readline$", name):
        return "tests.output.read_line: a process that says nothing hangs the test"
    target, attribute = _first_arguments(node)
    is_patch = re.search(r"(^|\.)(setattr|patch|patch\.object)$", name)
    if is_patch and (re.search(r"(^|\.)time\.\w+$", target) or (re.search(r"(^|\.)time$", target) and attribute)):
        return "tests.waiting.own_clock for the module under test: other threads of the process need their time"
    return None


def test_tests_read_with_a_deadline_and_replace_no_time_of_all_threads():
    for wrong in (
        "for line in process.stderr: pass",
        "process.stdout.readline()",
        'monkeypatch.setattr("tidelog.shell.access_tokens.time.time", f)',
        "monkeypatch.setattr(handshakes.time, 'monotonic', f)",
        "mock.patch.object(time, 'sleep')",
        'patch("time.sleep")',
    ):
        assert any(map(_disturbs_or_hangs, ast.walk(ast.parse(wrong)))), wrong
    for right in ("sys.stdin.readline()", "monkeypatch.setattr(run, 'time', clock)", "for line in lines: pass"):
        assert not any(map(_disturbs_or_hangs, ast.walk(ast.parse(right)))), right
    suspect = re.compile(r"\.readline\(|\bin [\w.]+\.std(out|err)\b|(setattr|patch|object)\([^)]*\btime\b")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {instead}"
        for path in _tracked()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "tests") and suspect.search(path.read_text())
        for node in ast.walk(_tree(path))
        if (instead := _disturbs_or_hangs(node))
    ]
    assert found == []


def _options_that_are_read() -> set[str]:
    declared = {
        SOURCE / "tidelog/config/topic.py",
        SOURCE / "tidelog/config/group.py",
        *(SOURCE / "tidelog/config/families").glob("*.py"),
        SOURCE / "tidelog/client/options.py",  # clients have some options of the same names
        SOURCE / "tidelog/shell/client_security.py",
        SOURCE / "tidelog/shell/access_tokens.py",
    }
    words = {
        word
        for path in _modules().values()
        if path not in declared
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    inheriting = [*TopicConfig.OPTIONS.values(), *GroupConfig.OPTIONS.values()]
    topics = [option for option in inheriting if option.attribute in words]
    behind = {synonym.name for option in topics for synonym in option.synonyms}
    brokers = [o for o in BrokerConfig.OPTIONS.values() if o.attribute in words or o.name in behind]
    return {option.name for option in [*topics, *brokers]}


def test_an_option_has_an_effect_or_says_that_it_has_none():
    read = _options_that_are_read()
    options = [*BrokerConfig.OPTIONS.values(), *TopicConfig.OPTIONS.values()]
    assert [f"mark {o.name} ignored=True" for o in options if o.name not in read and not o.ignored] == []
    assert [f"{o.name} is read: unmark it" for o in options if o.name in read and o.ignored] == []


def _functions() -> Iterator[tuple[str, int]]:
    for module, path in _modules().items():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_stay_short():
    lengths = dict(_functions())
    short = sum(length <= FUNCTION_LINES for length in lengths.values())
    assert short >= FUNCTION_SHARE * len(lengths)
    assert not {name: length for name, length in lengths.items() if length > FUNCTION_LIMIT}


class Large(UserWarning):
    """A file or a folder that may be easier to read in parts. Somebody judges: cutting by count makes fragments."""


@pytest.mark.filterwarnings("default::tests.test_tidy.Large")
def test_large_files_and_folders_are_named():
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in _modules().items()}
    folders = Counter(str(path.parent.relative_to(ROOT)) for path in _modules().values())
    assert lines
    for name, count, limit, unit in (
        *((name, count, FILE_LIMIT, "lines") for name, count in lines.items()),
        *((name, count, FOLDER_LIMIT, "files") for name, count in folders.items()),
    ):
        if count > limit:
            warnings.warn(f"{name} has {count} {unit}, more than {limit}", Large, stacklevel=1)


@cache
def _tests() -> dict[str, list[str]]:
    """Path of each test file → the names of its tests."""
    files = [path for path in _tracked() if path.name.startswith("test_") and path.is_relative_to(ROOT / "tests")]
    return {path.relative_to(ROOT).as_posix(): list(_test_names(path)) for path in files if path.suffix == ".py"}


def _test_names(path: Path) -> Iterator[str]:
    for node in _tree(path).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name
        elif isinstance(node, ast.ImportFrom):  # a suite that is collected again, on another store
            yield from (alias.name for alias in node.names if alias.name.startswith(("test_", "*")))


def test_every_marker_selects_tests():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert "markers" not in tomllib.load(file)["tool"]["pytest"]["ini_options"], "tests/tiers.py declares them"
    counts = Counter(tiers.tier_of(path) for path, names in _tests().items() for _ in names)
    assert set(counts) == set(tiers.TIERS)


def test_every_pattern_of_the_tiers_names_a_test():
    paths = list(_tests())
    names = [f"{path}::{name}" for path, found in _tests().items() for name in found]
    placed = {next(pattern for pattern, _ in tiers.PLACES if fnmatch(path, pattern)) for path in paths}
    assert [pattern for pattern, _ in tiers.PLACES if pattern not in placed] == []
    assert [pattern for pattern, _ in tiers.GROUPS if not any(fnmatch(path, pattern) for path in paths)] == []
    assert [pattern for pattern in tiers.ALONE if not any(fnmatch(path, pattern) for path in paths)] == []
    assert set(tiers.LONGEST) <= {tiers.group_of(name) for name in names}
    for pattern in tiers.STANDARD + tiers.EXHAUSTIVE:
        assert any(fnmatch(name, pattern) for name in names), pattern


def test_the_standard_selection_represents_every_tier():
    chosen = Counter(
        tiers.tier_of(path)
        for path, names in _tests().items()
        for name in names
        if tiers.is_selected("standard", path, name)
    )
    assert set(chosen) == set(tiers.TIERS)


@pytest.mark.parametrize("name", ["setup", "check", "test", "demo", "bench", "simulate", "coverage", "../.ci/run"])
def test_scripts_can_be_run(name):
    assert (ROOT / "scripts" / name).stat().st_mode & 0o111


def test_every_script_keeps_compiled_modules():
    """Without them each process compiles the whole tree again."""
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and path.suffix == ""]
    assert scripts
    lacking = [path.name for path in scripts if "unset PYTHONDONTWRITEBYTECODE" not in path.read_text(encoding="utf-8")]
    assert lacking == []


def test_every_dependency_is_pinned():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    pins = {
        _canonical(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line
    }
    assert not [requirement for requirement in wanted if _canonical(requirement) not in pins]


def _canonical(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()
