"""Draws docs/pictures/audit.png: the page of `tidelog audit` on three replicas, two of them damaged.

.venv/bin/python scripts/audit_picture.py
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.audit.logs import RECORDS, batch, batches, flip_record, remove_segment, segment, write_replica
from tidelog.cli.main import run

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "audit.png"
WIDTH = 1140


def damage(home: Path) -> None:
    """Remove a segment and flip a bit on broker 1; make broker 2 diverge."""
    content = batches(100)
    other = [*content]
    for number in range(70, 76):
        other[number] = batch(number * RECORDS, 2, *[b"w"] * RECORDS)
    write_replica(home, 0, content)
    hurt = write_replica(home, 1, content)
    write_replica(home, 2, other)
    remove_segment(hurt, 1)
    flip_record(segment(hurt, 3))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        damage(home)
        run(["audit", "--local", "--folder", str(home), "--html", str(home / "audit.html")])
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 300})
        page.goto(f"file://{home / 'audit.html'}")
        page.screenshot(path=PICTURE, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
