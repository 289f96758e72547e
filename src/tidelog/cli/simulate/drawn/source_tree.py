"""The sources that can be mutated, and the tests, which a checkout has and an installed wheel does not."""

from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

import tidelog
from tidelog.sim.mutants.drawn.drawing import is_target

TEST_FOLDERS = ("log", "partition", "controller", "coordinator", "node", "api", "client", "audit", "shell")
"""Folders of tests that hunt mutants: those that mirror the mutated packages. Other tests need more than one process or
test something else; stories and seeds are run separately."""

NOT_HASHED = ("cli/", "sim/mutants/", "spark/")
"""Parts of the package that no hunt depends on."""


@dataclass(frozen=True)
class SourceTree:
    """`package` is the folder of `tidelog`; `root` is that of the checkout, None if there are no tests."""

    package: Path
    root: Path | None

    def __repr__(self) -> str:
        return f"Tree({self.package})"

    @cached_property
    def sources(self) -> dict[str, str]:
        """Module → source, for all modules that are mutated."""
        targets = (path for path in self._files() if is_target(self._inside(path)))
        return {self._module(path): path.read_text(encoding="utf-8") for path in targets}

    def path(self, module: str) -> Path:
        """The file of a mutated module."""
        base = self.package.joinpath(*module.split(".")[1:])
        return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")

    @cached_property
    def source_key(self) -> str:
        """A hash of all files that a hunt depends on, except tests."""
        return _digest(self.package, [path for path in self._files() if not self._inside(path).startswith(NOT_HASHED)])

    def tests_key(self, folder: str) -> str:
        """A hash of the tests of a folder and the files that all tests share."""
        assert self.root is not None
        tests = self.root / "tests"
        return _digest(tests, [*sorted(tests.glob("*.py")), *sorted((tests / folder).rglob("*.py"))])

    @cached_property
    def all_tests_key(self) -> str:
        """A hash of all tests that hunt; empty if there are none."""
        return "-".join(map(self.tests_key, (*TEST_FOLDERS, "scenarios"))) if self.root else ""

    def _files(self) -> list[Path]:
        return sorted(self.package.rglob("*.py"))

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.package).as_posix()

    def _module(self, path: Path) -> str:
        return ".".join((self.package.name, *path.relative_to(self.package).with_suffix("").parts)).removesuffix(
            ".__init__"
        )


def mirror(module: str) -> str:
    """The prefix of node IDs of the tests that mirror the module."""
    part = module.split(".")[1]
    return "tests/api/records/" if part == "api" else f"tests/{part}/"


@cache
def this_tree() -> SourceTree:
    """The tree of the running process; it has tests only if pytest is installed."""
    assert tidelog.__file__ is not None
    package = Path(tidelog.__file__).parent
    root = package.parent.parent
    has_tests = (root / "tests" / "conftest.py").exists() and find_spec("pytest") is not None
    return SourceTree(package, root if has_tests else None)


def _digest(base: Path, paths: list[Path]) -> str:
    digest = blake2b(digest_size=8)
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(base)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
