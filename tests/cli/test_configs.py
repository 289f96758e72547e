"""`tidelog configs`: what is set, what is described, and how values with commas are written."""

import pytest

from tidelog.cli.configs import additions


def test_options_of_a_topic_are_set_shown_and_removed(on):
    on.create("tuned")
    changed = on(
        "configs", "--alter", "--topic", "tuned", "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]"
    )
    assert changed == (0, "Completed updating config for topic tuned.\n", "")
    described = ("configs", "--describe", "--entity-type", "topics", "--entity-name", "tuned")
    assert on.until(lambda result: len(result.lines) == 3, *described).lines == [
        "Dynamic configs for topic tuned are:",
        (
            "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
            "DEFAULT_CONFIG:log.cleanup.policy=delete}"
        ),
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}",
    ]
    on("configs", "--alter", "--topic", "tuned", "--delete-config", "retention.ms,cleanup.policy")
    nothing = ["Dynamic configs for topic tuned are:"]
    on.until(lambda result: result.lines == nothing, "configs", "--describe", "--topic", "tuned")
    everything = on("configs", "--describe", "--topic", "tuned", "--all").lines
    assert everything[0] == "All configs for topic tuned are:"
    assert "  preallocate=false sensitive=false synonyms={DEFAULT_CONFIG:log.preallocate=false}" in everything


def test_options_from_a_file(on, tmp_path):
    on.create("filed")
    file = tmp_path / "topic.properties"
    file.write_text("# comment\nretention.ms = 7\n")
    assert on("configs", "--alter", "--topic", "filed", "--add-config-file", str(file)).code == 0
    on.until(lambda result: "retention.ms=7" in result.out, "configs", "--describe", "--topic", "filed")


def test_brokers_have_options_each_and_together(on):
    assert on("configs", "--describe", "--entity-type", "brokers").lines == [
        "Dynamic configs for broker 0 are:",
        "Dynamic configs for broker 1 are:",
        "Dynamic configs for broker 2 are:",
        "Default configs for brokers in the cluster are:",
    ]
    described = on("configs", "--describe", "--broker", "1", "--all")
    assert "  broker.id=1 sensitive=false" in described.out


def test_what_is_not_there_or_not_valid_is_exit_code_1(on):
    missing = on("configs", "--describe", "--topic", "missing")
    assert missing == (1, "", "The topic 'missing' doesn't exist and doesn't have dynamic config.\n")
    on.create("strict")
    wrong = on("configs", "--alter", "--topic", "strict", "--add-config", "retention.ms=x")
    assert wrong.code == 1
    assert wrong.err.endswith("(INVALID_CONFIG).\n")


def test_values_with_commas_stand_in_brackets():
    given = {"add_config_file": None, "add_config": "a=1,b=[x,y],c=,d=p=q"}
    assert additions(given) == {"a": "1", "b": "x,y", "c": "", "d": "p=q"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--describe",), "--entity-type is needed, or one of its short forms."),
        (("--alter", "--entity-type", "topics", "--add-config", "a=b"), "--alter of topics needs --entity-name."),
        (("--alter", "--topic", "t"), "--alter needs --add-config."),
        (("--describe", "--topic", "t", "--add-config", "a=b"), "--add-config goes with --alter, not with --describe."),
        (("--describe", "--topic", "t", "--broker", "1"), "--topic and --broker exclude each other."),
        (
            ("--describe", "--entity-type", "brokers", "--entity-name", "x"),
            "--entity-name of brokers must be a broker id, not 'x'.",
        ),
        (
            ("--describe", "--entity-type", "topics", "--entity-default"),
            "--entity-default goes with brokers, not with topics.",
        ),
    ],
)
def test_flags_that_do_not_go_together_say_so(tidelog, arguments, sentence):
    assert tidelog("configs", *arguments) == (1, "", f"tidelog configs: {sentence} See tidelog configs --help.\n")
