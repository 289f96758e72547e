"""Log folders to dump, and what `tidelog dump-log` prints of them."""

from tests.log.support import NOW, WALL, open_log, options
from tests.log.test_compaction import add, transaction
from tidelog.cli.main import run
from tidelog.shell.disk import OsDisk
from tidelog.wire import codec
from tidelog.wire.records import Record, build


def a_folder(tmp_path):
    """A log with everything in it: keys and none, headers, compression, transactions, several segments."""
    path = tmp_path / "t-0"
    log = open_log(OsDisk(), options(segment_bytes=600, index_interval_bytes=100), folder=str(path))
    add(log, (b"a", b"1"), (None, b"x"))
    record = Record(0, WALL, b"k", None, [("h", b"v"), ("n", None)])
    log.append_as_leader(build([record], compression=1), 1, NOW)
    transaction(log, 1, True, (b"a", b"old"), (b"b", b"1"))
    transaction(log, 2, False, (b"a", b"never"))
    for number in range(20):
        add(log, (b"key%d" % number, b"v" * 20), timestamp=WALL + number)
    log.close()
    return path


def ours(capsys, *arguments):
    code = run(["dump-log", *arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out.splitlines()


def write_internal(tmp_path, *pairs):
    log = open_log(OsDisk(), options(), folder=str(tmp_path / "t-0"))
    log.append_as_leader(build([Record(0, WALL, key, value) for key, value in pairs]), 1, NOW)
    log.close()
    return str(tmp_path / "t-0" / "00000000000000000000.log")


def numbered(number, message, version):
    return number.to_bytes(2, "big") + codec.encode(message, version)
