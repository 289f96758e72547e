"""docs/audit.md says of each kind of finding what it means, and of each refusal what to do."""

from pathlib import Path

import pytest

from tidelog.audit.core.finding import KINDS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "audit.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_reported(kind):
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{kind}`" in line.split("|")[1]]
    if not KINDS[kind].is_broken:
        assert f"`{kind}` (" in PAGE
        return
    (row,) = rows
    _, _, rule, meaning, remedy, _ = (cell.strip() for cell in row.split("|"))
    assert rule == KINDS[kind].invariant.replace("STORAGE", "")
    assert meaning
    assert remedy
