"""The page of a telling works in a real browser."""

from dataclasses import replace

import pytest

from tests.lab.browser import chromium, opened
from tests.lab.told import telling
from tidelog.cli.main import run
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


OVERFLOW = """() => {
  const inside = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
    && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
  const clipped = [];
  for (const picture of document.querySelectorAll(".stage svg")) {
    const frame = picture.getBoundingClientRect(), room = picture.parentElement.getBoundingClientRect();
    if (frame.right > room.right + 1) clipped.push(`picture of ${frame.width} in ${room.width}`);
    for (const each of picture.querySelectorAll(".mark text, .record rect, .party rect"))
      if (!inside(each.getBoundingClientRect(), frame)) clipped.push(each.parentElement.textContent);
  }
  for (const record of document.querySelectorAll(".record")) {
    const [box, label] = [record.querySelector("rect"), record.querySelector("text")].map((each) => each.getBoundingClientRect());
    if (label.left < box.left - 1 || label.right > box.right + 1) clipped.push(`label ${record.textContent}`);
  }
  return [...clipped, ...(document.documentElement.scrollWidth > innerWidth ? ["the page"] : [])];
}"""
STORIES = (
    ("loss-by-high-watermark", ("--truncation", "high_watermark")),
    ("divergence-by-high-watermark", ("--truncation", "high_watermark", "--unclean")),
    ("delivery-semantics", ("--knob", "semantics=at_least_once")),
    ("consumer-offsets-grow", ()),
    ("cut-off-leader", ()),
    ("adding-a-voter", ("--knob", "changes=together")),
)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories")
    for name, flags in STORIES:
        assert run(["lab", "run", name, *flags, "--html", str(folder / f"{name}.html")]) == 0
    return folder


@pytest.mark.parametrize("name", [name for name, _ in STORIES])
def test_nothing_is_clipped_at_any_width(browser, stories, name):
    with opened(browser, stories / f"{name}.html") as page:
        steps = int(page.locator("#slider").get_attribute("max")) + 1
        for width, scheme in ((390, "dark"), (1280, "light"), (1920, "dark"), (390, "light")):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            page.keyboard.press("Home")
            for _ in range(steps if scheme == "dark" or width == 1280 else 1):
                assert page.evaluate(OVERFLOW) == [], (width, place(page))
                page.keyboard.press("ArrowRight")
            if page.locator(".stage").count() == 2:
                first, second = (page.locator(".stage").nth(n).bounding_box() for n in (0, 1))
                assert (first["y"] == second["y"]) == (width > 1000), "panels stack on narrow screens only"


def test_what_is_sent_again_and_again_is_one_arrow(browser, tmp_path):
    told = telling()
    step = told.steps[1]
    repeated = replace(step, messages=[step.messages[0], *step.messages, step.messages[0]])
    write([replace(told, steps=[told.steps[0], repeated, told.steps[2]])], tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", step=2) as page:
        assert page.locator(".arrow").count() == len(step.messages)
        assert page.locator(".messages li").first.inner_text().endswith(", 3 times")


def test_a_commit_goes_to_the_coordinator_of_groups(browser, stories):
    with opened(browser, stories / "delivery-semantics.html") as page:
        said = []
        for _ in range(int(page.locator("#slider").get_attribute("max")) + 1):
            said += page.locator(".messages b").all_text_contents()
            page.keyboard.press("ArrowRight")
        assert "client → group coordinator " in said
        assert "client → controller " not in said
