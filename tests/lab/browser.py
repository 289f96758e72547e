"""A headless Chromium, Debian's, for tests that look at a page as a person would."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PATIENCE_MS = 90_000


@contextmanager
def opened(path, *, step=None) -> Iterator:
    """The page, open at a step; whatever it says on the console, or asks of a network, fails the test."""
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium")
    if executable is None:
        pytest.fail("Chromium is missing: run scripts/setup test")
    said, asked = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"], timeout=PATIENCE_MS)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{path}" + (f"#step={step}" if step else ""))
        yield page
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
