"""Log lines that clients cause: each has a share, and all together are bounded."""

from tidelog.node.event_log import LINES_OF_ALL, LINES_OF_ONE, LineLimit


def test_a_client_that_floods_the_log_hides_no_line_of_another():
    limit = LineLimit()
    assert sum(limit.allows("one", 1_000 + each) for each in range(900)) == LINES_OF_ONE
    assert limit.allows("other", 1_999)
    assert limit.note_omitted() == {"omitted": 900 - LINES_OF_ONE}
    assert limit.note_omitted() == {}
    assert limit.allows("one", 2_000), "in the next second"


def test_however_many_clients_there_are_lines_and_memory_are_bounded():
    limit = LineLimit()
    assert sum(limit.allows(f"client {each}", 5_000) for each in range(10_000)) == LINES_OF_ALL
    assert f"{LINES_OF_ALL} lines by {LINES_OF_ALL}" in repr(limit)
    assert limit.omitted == 10_000 - LINES_OF_ALL
