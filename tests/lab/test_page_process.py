"""The page of a telling works in a real browser."""

import pytest

from tests.lab.browser import chromium, opened
from tests.lab.told import telling
from tidelog.lab.page import write


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def place(page):
    return page.locator("#place").inner_text()


def test_stepping_by_button_key_and_slider(browser, tmp_path):
    write([telling()], tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        assert "step 1 of 3" in place(page)
        assert page.locator("#back").is_disabled()
        page.locator("#forward").click()
        assert "step 2 of 3" in place(page)
        assert page.locator("#story .says").inner_text() == "B takes m2."
        assert page.locator(".record.fresh").count() == 1
        assert page.locator(".record.unsynced").count() == 1
        assert page.locator(".arrow").count() == 2
        assert page.locator(".arrow.held").count() == 1
        page.keyboard.press("ArrowRight")
        assert "step 3 of 3" in place(page)
        assert page.locator("#forward").is_disabled()
        page.keyboard.press("Home")
        assert "step 1 of 3" in place(page)
        page.locator("#slider").fill("2")
        assert "step 3 of 3" in place(page)
        page.locator("summary").click()
        page.locator("#steps li").nth(1).click()
        assert "step 2 of 3" in place(page)


def test_playing_goes_to_the_end_and_stops(browser, tmp_path):
    write([telling()], tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        page.keyboard.press(" ")
        assert "Pause" in page.locator("#play").inner_text(), "it says so while it plays"
        assert "step 1 of 3" in place(page)
        page.clock.run_for(60_000)
        assert "step 3 of 3" in place(page)
        assert "Play" in page.locator("#play").inner_text()
        assert page.locator(".verdict.bad").count() == 1
        assert page.locator(".record.lost").count() == 1


def test_two_generations_side_by_side_on_the_same_steps(browser, tmp_path):
    write([telling("high_watermark"), telling("kip_320")], tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", step=3) as page:
        assert page.locator(".stage").count() == 2
        assert page.locator(".stage h2").all_inner_texts() == ["truncation high_watermark", "truncation kip_320"]
        assert page.locator(".verdict").count() == 2
        assert page.locator(".verdict.bad").count() == 1
        first, second = (page.locator(".stage").nth(n).bounding_box() for n in (0, 1))
        assert first["y"] == second["y"], "side by side"
        assert page.locator(".stage .own .why").all_inner_texts()[1] == "It truncates as kip_320 does."
        page.keyboard.press("ArrowLeft")
        assert page.locator("#story .says").inner_text() == "B takes m2."


def test_a_small_screen_scrolls_the_logs_and_not_the_page(browser, tmp_path):
    write([telling()], tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        page.set_viewport_size({"width": 380, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
