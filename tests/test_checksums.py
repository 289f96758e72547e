"""CRC-32C: the values of RFC 3720, and what its import costs."""

import subprocess
import sys

from tidelog import checksums


def test_checksums_are_those_of_the_standard():
    assert checksums.crc32c(bytes(32)) == 0x8A9136AA
    assert checksums.crc32c(b"6789", checksums.crc32c(b"12345")) == checksums.crc32c(b"123456789") == 0xE3069283


def test_records_are_read_without_the_command_line_of_the_package():
    program = "import sys; before = set(sys.modules); import tidelog.wire.records; print({*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "tidelog.wire.records" in done.stdout
    assert not [name for name in ("argparse", "importlib.metadata", "crc32c._cli") if repr(name) in done.stdout]


def test_a_package_without_the_extension_is_taken_whole(monkeypatch):
    monkeypatch.setattr(checksums.PathFinder, "find_spec", lambda *_: None)
    assert checksums._extension().crc32c(b"123456789") == 0xE3069283
