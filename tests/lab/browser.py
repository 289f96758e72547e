"""A headless Chromium, Debian's, for tests that look at a page as a person would."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 90_000


@contextmanager
def chromium() -> "Iterator[Browser]":
    """For the tests of one file: an event loop stands still in this thread meanwhile, so none may run beside it."""
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium")
    if executable is None:
        pytest.fail("Chromium is missing: run scripts/setup test")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: "Browser", path: Path | str, *, step: int | None = None) -> "Iterator[Page]":
    """The page, open at a step; whatever it says on the console, or asks of a network, fails the test.

    Its time stands still unless the test moves `page.clock`.
    """
    said: list[str] = []
    asked: list[str] = []
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.clock.install()
        page.goto(f"file://{path}" + (f"#step={step}" if step else ""))
        yield page
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
