"""Builds the sdist and the wheel, and checks them with twine; scripts/package runs it.

If pyproject.toml has a Repository among its URLs, the README in both links to it: a page of PyPI cannot show pictures
by relative links. Without one the links stay as they are.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = (".git", ".venv", ".cache", "__pycache__", "*_cache", "dist", "build", "data")
RELATIVE = re.compile(r"(!?)(\[[^]]*\])\((?!https?:|#|mailto:)([^)]+)\)")


def absolute_links(text: str, repository: str) -> str:
    """The README with links into the repository: `raw` for pictures, `blob` for pages."""

    def replaced(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}{match[2]}({repository.rstrip('/')}/{kind}/HEAD/{match[3]})"

    return RELATIVE.sub(replaced, text)


def main(target: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = project.get("urls", {}).get("Repository")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tidelog"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if repository is None:
            print("pyproject.toml has no Repository among its URLs: the links of the README stay relative")
        else:
            readme = copy / "README.md"
            readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), repository), encoding="utf-8")
        python = [sys.executable, "-m"]
        subprocess.run([*python, "build", "--no-isolation", "--outdir", str(target), str(copy)], check=True)
    built = sorted(str(file) for file in target.iterdir())
    subprocess.run([*python, "twine", "check", "--strict", *built], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else ROOT / "dist").absolute())
