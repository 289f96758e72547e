"""Options without an effect are reported once, in the broker's log."""

from tidelog.config.broker import BrokerConfig
from tidelog.shell.broker import BrokerProcess


def test_ignored_and_unknown_options_get_a_line_each(capsys):
    given = {"node.id": "1", "process.roles": "broker", "num.io.threads": "8", "log.retension.hours": "1"}
    BrokerProcess(BrokerConfig(given))._log_options_without_effect()
    ignored, unknown = capsys.readouterr().err.splitlines()
    assert ignored.endswith("INFO broker-1 options.ignored names=process.roles,num.io.threads")
    assert unknown.endswith("WARNING broker-1 options.unknown names=log.retension.hours")


def test_nothing_is_said_where_everything_counts(capsys):
    BrokerProcess(BrokerConfig({"node.id": "1"}))._log_options_without_effect()
    assert capsys.readouterr().err == ""
