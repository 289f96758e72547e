"""`tidelog dump-log`: folders, damage, refusals; beside Kafka's own tool in test_dump_log_java.py."""

import json

import pytest

from tests.cli.dumped import a_folder, numbered, ours, write_internal
from tidelog.cli.main import run
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue


@pytest.fixture
def folder(tmp_path):
    return a_folder(tmp_path)


def test_a_folder_is_all_its_files(capsys, folder):
    found = ours(capsys, "--files", str(folder))
    assert sum(line.startswith("Dumping ") for line in found) == len(list(folder.iterdir()))
    assert f"Dumping {folder}/leader-epoch-checkpoint" in found
    assert "1 0" in found


def test_damage_is_shown_where_it_is(capsys, folder):
    log = folder / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content + b"torn")
    found = ours(capsys, "--files", str(log), "--print-data-log")
    assert "isvalid: false" in found[2]
    assert "isvalid: true" in found[3]
    assert "invalid bytes at the end" in found[-1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("there.is.none", None, "no such file"),
        ("notes.txt", b"", "not a file of a log directory"),
        ("00000000000000000000.snapshot", b"?", "too short"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(capsys, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(["dump-log", "--files", str(tmp_path / name)]) == 1
    assert said in capsys.readouterr().err


def test_an_index_that_lies_is_reported(capsys, folder):
    index = str(folder / "00000000000000000000.index")
    assert "passed sanity check" in ours(capsys, "--files", index, "--index-sanity-check")[1]
    (folder / "00000000000000000000.index").write_bytes(b"\xff" * 16)
    assert run(["dump-log", "--files", index, "--index-sanity-check"]) == 1
    assert "does not match its segment" in capsys.readouterr().err


def test_json_is_json(capsys, tmp_path):
    key = numbered(1, OffsetCommitKey(group="g", topic="t", partition=3), 0)
    file = write_internal(tmp_path, (key, numbered(3, OffsetCommitValue(offset=7), 3)))
    [line] = [line for line in ours(capsys, "--files", file, "--offsets-decoder") if "payload" in line]
    payload = json.loads(line.partition(" payload: ")[2])
    assert payload["data"]["leaderEpoch"] == -1
