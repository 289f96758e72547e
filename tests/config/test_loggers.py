"""Levels of log lines: which there are, and what may be asked of them."""

import pytest

from tidelog.config.alter import Change, Operation
from tidelog.config.loggers import LOGGERS, alter_loggers, level_of
from tidelog.errors import ApiError, ErrorCode

SET, DELETE, APPEND = Operation.SET, Operation.DELETE, Operation.APPEND


def test_a_logger_has_its_own_level_or_the_roots():
    levels = alter_loggers({}, [Change("partition", SET, "debug"), Change("root", SET, "ERROR")])
    assert [level_of(levels, name) for name in ("partition", "config", "root")] == ["DEBUG", "ERROR", "ERROR"]
    assert level_of(alter_loggers(levels, [Change("partition", DELETE, None)]), "partition") == "ERROR"
    assert level_of({}, "config") == "INFO"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (Change("no.such", DELETE, None), ErrorCode.INVALID_CONFIG),
        (Change("partition", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (Change("partition", SET, None), ErrorCode.INVALID_CONFIG),
        (Change("partition", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (Change("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_asked(change, code):
    with pytest.raises(ApiError) as refused:
        alter_loggers({}, [change])
    assert refused.value.code == code


def test_the_root_is_among_them():
    assert "root" in LOGGERS
