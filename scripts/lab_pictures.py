"""Draws docs/pictures/*.png: steps of the lab's stories, as Chromium renders their pages. Those of `WIDTHS` are whole
pages, in light and dark.

.venv/bin/python scripts/lab_pictures.py
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

from tidelog.cli.main import run

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


class Picture(NamedTuple):
    """A step of the page that `tidelog lab run STORY FLAGS… --html FILE` writes."""

    name: str
    story: str
    flags: tuple[str, ...]
    step: int
    width: int = 760


TABLE = (
    Picture("two-fetches", "two-fetches-to-commit", (), 4),
    Picture("slow-follower", "slow-follower", (), 3),
    Picture("last-replica", "last-replica", (), 6),
    Picture("loss", "loss-by-high-watermark", ("--truncation", "high_watermark"), 6, 1400),
    Picture("divergence", "divergence-by-high-watermark", ("--truncation", "high_watermark", "--unclean"), 7, 1400),
    Picture("cut-off-leader", "cut-off-leader", (), 5, 1000),
    Picture("eligible-replica", "eligible-replica", (), 5, 1000),
    Picture("zombie-fetch", "zombie-fetch", ("--truncation", "kip_279"), 6, 1400),
)


WHOLE = Picture("lab", "loss-by-high-watermark", ("--truncation", "high_watermark"), 6)
WIDTHS = (390, 1280, 1920)


def written(picture: Picture, folder: Path) -> Path:
    """The page of the story."""
    file = folder / f"{picture.name}.html"
    if run(["lab", "run", picture.story, *picture.flags, "--html", str(file)]):
        sys.exit(f"{picture.story} could not be played")
    return file


def draw_whole(folder: Path, page: Page) -> None:
    file = written(WHOLE, folder)
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 600})
            page.goto(f"file://{file}#step={WHOLE.step}")
            page.screenshot(path=PICTURES / f"lab-{width}-{scheme}.png", full_page=True)


def draw(picture: Picture, folder: Path, page: Page) -> None:
    file = written(picture, folder)
    page.set_viewport_size({"width": picture.width, "height": 600})
    page.goto(f"file://{file}#step={picture.step}")
    page.add_style_tag(content="#controls, #legend, #all, header { display: none } body { padding-bottom: 1rem }")
    page.screenshot(path=PICTURES / f"{picture.name}.png", full_page=True)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in TABLE:
            page = browser.new_page(device_scale_factor=1)
            draw(picture, Path(folder), page)
            page.close()
        page = browser.new_page(device_scale_factor=1)
        draw_whole(Path(folder), page)
        browser.close()


if __name__ == "__main__":
    main()
