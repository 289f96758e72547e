"""The report's page in Chromium, as a person would open it."""

import pytest

from tests.audit.logs import batches, flip_record, remove_segment, segment, write_cluster
from tests.lab.browser import opened
from tidelog.cli.main import run

pytestmark = pytest.mark.chromium


def test_the_page_shows_a_lane_for_each_replica_and_where_it_is_broken(tmp_path):
    path = write_cluster(tmp_path / "logs", batches(60))[1]
    remove_segment(path, 1)
    flip_record(segment(path, 1))
    page_file = tmp_path / "report.html"
    run(["audit", "--local", "--folder", str(tmp_path / "logs"), "--html", str(page_file)])
    with opened(page_file) as page:
        assert page.inner_text("h1") == "Replica audit: 2 broken"
        assert page.locator("svg text", has_text="broker").count() == 3
        titles = page.locator("svg title").all_text_contents()
        assert "gap: offsets 100 to 199 are missing" in titles
        assert any(title.startswith("checksum: ") for title in titles)
        width = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert width, "the page is no wider than the window"
