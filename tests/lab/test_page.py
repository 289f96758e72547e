"""The page of a telling: what is in the file."""

import json
import re

import pytest

from tests.lab.told import telling
from tidelog.lab.page import render


def test_the_file_holds_the_telling_and_asks_for_nothing_else():
    text = render([telling()])
    data = re.search(r'<script id="playbacks" type="application/json">(.*?)</script>', text, re.DOTALL)[1]
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
