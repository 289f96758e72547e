"""Prints a table of line and branch coverage with a row per package, from the output of `coverage json`.

.venv/bin/python scripts/coverage_by_package.py FILE
"""

import json
import sys
from collections import Counter
from pathlib import Path, PurePath

COLUMNS = {
    "lines": ("covered_lines", "num_statements"),
    "branches": ("covered_branches", "num_branches"),
}


def by_package(files: dict[str, dict]) -> dict[str, Counter[str]]:
    """Map each package of tidelog to the sums of its files' counts."""
    found: dict[str, Counter[str]] = {}
    for name, file in files.items():
        parts = PurePath(name).parts
        package = parts[parts.index("tidelog") + 1]
        found.setdefault(package, Counter()).update(
            {key: file["summary"][key] for pair in COLUMNS.values() for key in pair}
        )
    return dict(sorted(found.items()))


def share(covered: int, total: int) -> str:
    return f"{100 * covered / total:.2f}" if total else "-"


def main() -> None:
    files = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    print("| package | " + " | ".join(f"{name} %" for name in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for package, sums in by_package(files).items():
        shares = [share(sums[covered], sums[there]) for covered, there in COLUMNS.values()]
        print(f"| {package} | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()
