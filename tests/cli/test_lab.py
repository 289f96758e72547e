"""`tidelog lab`: the list, a story as text and as a page, a person's own story, and what is refused."""

import pytest

from tidelog.lab.engine import names

OWN = "title: Mine\ncluster A B\ntopic A B\nproduce m1\nfetch B B\nkill B\nkill B\n"


def test_the_list_names_every_story_with_its_knobs(tidelog):
    result = tidelog("lab", "list")
    assert result.code == 0
    assert [line for line in result.lines if not line.startswith(" ")] == list(names())
    assert "    truncation: [high_watermark] kip_101 kip_279 kip_320" in result.lines


def test_a_story_is_printed_as_plain_lines_in_a_pipe(tidelog):
    result = tidelog("lab", "run", "loss-by-high-watermark")
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "truncation=high_watermark unclean=false" in result.lines
    assert "   A  follower  │ m1@0  ┃ m2@0~ │   LEO 2  HW 1  epochs 0:0" in result.lines
    assert "   B → A  Fetch answer: m1, HW 0" in result.lines
    assert "   B ⇢ held: A  Fetch answer: no records, HW 2" in result.lines
    assert result.lines[-2:] == [
        "This does not end well.",
        "   m2 was acknowledged at offset 1 with acks=all, and is gone.",
    ]


@pytest.mark.parametrize(
    ("options", "last"),
    [
        (("loss-by-high-watermark", "--truncation", "kip_320", "--unclean"), "This ends well."),
        (("acks-one", "--acks", "all", "--replicas", "3", "--knob", "leader_change=crash"), "This ends well."),
        (("last-replica", "--min-insync-replicas", "2"), "This ends well."),
        (("unclean-election", "--no-unclean"), "This ends well."),
        (("unclean-election", "--unclean"), "This does not end well."),
    ],
)
def test_knobs_change_the_end(tidelog, options, last):
    assert last in tidelog("lab", "run", *options).lines


def test_a_page_of_an_older_generation_shows_the_present_one_beside_it(tidelog, tmp_path):
    page = tmp_path / "loss.html"
    result = tidelog("lab", "run", "loss-by-high-watermark", "--html", str(page))
    assert result.lines == [f"{page}: m2 was acknowledged at offset 1 with acks=all, and is gone."]
    text = page.read_text(encoding="utf-8")
    assert '"truncation":"high_watermark"' in text
    assert '"truncation":"kip_320"' in text


def test_an_own_story_is_told_up_to_what_is_impossible(tidelog, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(OWN, encoding="utf-8")
    result = tidelog("lab", "run", str(path))
    assert result.code == 1
    assert result.err.splitlines() == [f"{path}:7: B is down; expected a broker that runs: A."]
    path.write_text(OWN.removesuffix("kill B\n"), encoding="utf-8")
    result = tidelog("lab", "run", str(path))
    assert result.lines[0] == "Mine"
    assert "3. produce m1" in result.lines
    assert "This ends well." in result.lines


def test_a_story_without_a_topic_says_so(tidelog, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("cluster A\n", encoding="utf-8")
    assert tidelog("lab", "run", str(path)).lines[-1] == "   There is no topic."


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("nonsense",), "Unknown story 'nonsense'; expected a file or one of two-fetches-to-commit,"),
        (("acks-one", "--truncation", "kip_320"), "acks-one has no knob truncation; it has: acks, leader_change,"),
        (("acks-one", "--acks", "2"), "acks-one: '2' is not a value of acks; expected one of 1, all."),
        (("acks-one", "--knob", "x"), "expected NAME=VALUE, not 'x'."),
        (("missing.txt",), "No such file or directory: 'missing.txt'"),
        (("acks-one", "--html", "/nowhere/page.html"), "No such file or directory: '/nowhere/page.html'"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(tidelog, arguments, reason):
    result = tidelog("lab", "run", *arguments)
    assert result.code == 1
    assert reason in result.err


def test_a_story_of_voters_is_printed_and_leaves_metadata_logs(tidelog, tmp_path):
    result = tidelog("lab", "run", "cut-off-leader", "--logs", str(tmp_path / "logs"))
    assert result.code == 0, result
    assert result.lines[-2:] == ["This ends well.", "   Every committed record is there, and all logs agree."]
    assert "   B → C  Vote: vote for me in epoch 2: my log ends at 2 with epoch 1" in result.lines
    row = "   A  leader    │ A leads@1 │ m1@1      ┃ m2@1      │               LEO 3  HW 2  epoch 1  voted A  voters A B C"
    assert any(line.startswith(row) for line in result.lines)
    dumped = tidelog("dump-log", "--files", str(tmp_path / "logs" / "A" / "__cluster_metadata-0"), "--print-data-log")
    assert dumped.out.count("isControl: true") == 2, "who leads in epoch 1 and in epoch 2"


def test_a_file_that_is_no_text_is_refused(tidelog, tmp_path):
    path = tmp_path / "noise.txt"
    path.write_bytes(b"\xff\xfe")
    assert tidelog("lab", "run", str(path)).err.splitlines() == [f"{path}:1: expected a text in UTF-8."]


def test_step_by_step_stops_at_q(tidelog, monkeypatch):
    """On a terminal only: the keys are faked, so are the terminals."""
    from tidelog.cli import lab

    keys = iter(" q")
    monkeypatch.setattr(lab, "_is_terminal", lambda: True)
    monkeypatch.setattr("click.getchar", lambda: next(keys))
    result = tidelog("lab", "run", "acks-one", "--step")
    assert [line for line in result.lines if line[:2] in ("1.", "2.", "3.")][-1].startswith("2.")
    assert "This" not in result.out


def test_the_log_folders_of_a_story_can_be_kept(tidelog, tmp_path):
    result = tidelog("lab", "run", "acks-one", "--logs", str(tmp_path / "logs"))
    assert result.code == 0, result
    assert {path.name for path in (tmp_path / "logs").iterdir()} >= {"A", "B", "history.jsonl"}
    assert list((tmp_path / "logs" / "A").glob("t-0/*.log"))
    again = tidelog("lab", "run", "acks-one", "--logs", str(tmp_path / "logs"))
    assert again.code == 1
    assert "exists" in again.err
