"""The page of a telling: what is in the file, and that it works in a real browser."""

import json
import re

import pytest

from tests.lab.browser import opened
from tidelog.lab.page import render, write
from tidelog.lab.telling import Message, RecordView, ReplicaView, Step, Telling, Verdict

M1 = RecordView(0, 0, "m1", synced=True)
M2 = RecordView(1, 0, "m2", synced=False)


def replica(broker, role, records, hw, **more):
    return ReplicaView(
        broker, role != "down", role, 0, 0, len(records), hw, records=list(records), epochs=[(0, 0)], **more
    )


def telling(truncation="high_watermark"):
    lost = truncation == "high_watermark"
    ends = [M1] if lost else [M1, M2]
    steps = [
        Step(1, 0.0, "B leads.", "It is the first replica.", [
            replica("broker-0", "follower", [M1], 1),
            replica("broker-1", "leader", [M1], 1, isr=["broker-0", "broker-1"], remote={"broker-0": 1}),
        ]),
        Step(2, 3.5, "B takes m2.", "acks=all waits for A.", [
            replica("broker-0", "follower", [M1], 1),
            replica("broker-1", "leader", [M1, M2], 1, isr=["broker-0", "broker-1"], remote={"broker-0": 1}),
        ], [
            Message("producer", "broker-1", "Produce", "m2", delivered=True),
            Message("broker-1", "broker-0", "Fetch answer", "m2", delivered=False),
        ]),
        Step(3, 9.0, "A leads.", f"It truncates as {truncation} does.", [
            replica("broker-0", "leader", ends, len(ends), isr=["broker-0"]),
            replica("broker-1", "down", [M1, M2], 2),
        ]),
    ]  # fmt: skip
    verdict = Verdict(not lost, [M2] if lost else [], [], ["m2 is gone." if lost else "m2 is there."])
    knobs = {"acks": "all", "truncation": truncation}
    return Telling("loss", "Loss by high watermark", "seed 000, KIP-101", knobs, steps, verdict)


def test_the_file_holds_the_telling_and_asks_for_nothing_else():
    text = render([telling()])
    data = re.search(r'<script id="tellings" type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    [told] = json.loads(data)
    assert told["steps"][1]["messages"][1]["delivered"] is False
    assert not re.search(r'(src|href)="(?!data:)', text)


def test_a_label_cannot_end_the_script():
    one = telling()
    one.steps[0].says = "</script><b>"
    assert "</script><b>" not in render([one])


def test_a_page_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one telling"):
        render([])


def place(page):
    return page.locator("#place").inner_text()


def test_stepping_by_button_key_and_slider(tmp_path):
    write([telling()], tmp_path / "page.html")
    with opened(tmp_path / "page.html") as page:
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


def test_playing_goes_to_the_end_and_stops(tmp_path):
    write([telling()], tmp_path / "page.html")
    with opened(tmp_path / "page.html") as page:
        page.evaluate("""words = []; new MutationObserver(() => words.push(document.getElementById('play').textContent))
                         .observe(document.getElementById('play'), {childList: true})""")
        page.keyboard.press(" ")
        page.wait_for_function("document.getElementById('place').value.includes('step 3 of 3')", timeout=90_000)
        page.wait_for_function("words.at(-1).includes('Play')", timeout=90_000)
        assert "Pause" in page.evaluate("words[0]"), "it says so while it plays"
        assert page.locator(".verdict.bad").count() == 1
        assert page.locator(".record.lost").count() == 1


def test_two_generations_side_by_side_on_the_same_steps(tmp_path):
    write([telling("high_watermark"), telling("kip_320")], tmp_path / "page.html")
    with opened(tmp_path / "page.html", step=3) as page:
        assert page.locator(".stage").count() == 2
        assert page.locator(".stage h2").all_inner_texts() == ["truncation high_watermark", "truncation kip_320"]
        assert page.locator(".verdict").count() == 2
        assert page.locator(".verdict.bad").count() == 1
        first, second = (page.locator(".stage").nth(n).bounding_box() for n in (0, 1))
        assert first["y"] == second["y"], "side by side"
        assert page.locator(".stage .own .why").all_inner_texts()[1] == "It truncates as kip_320 does."
        page.keyboard.press("ArrowLeft")
        assert page.locator("#story .says").inner_text() == "B takes m2."


def test_a_small_screen_scrolls_the_logs_and_not_the_page(tmp_path):
    write([telling()], tmp_path / "page.html")
    with opened(tmp_path / "page.html") as page:
        page.set_viewport_size({"width": 380, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
