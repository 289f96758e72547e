"""From a certificate's subject to a principal's name, by Kafka's rules (KIP-371)."""

import pytest

from tidelog.config.principals import parse, principal_name
from tidelog.errors import InvalidOption

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org\\,Inc,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SUBJECT),
        ("", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U,DEFAULT", "DUKE@SERVICEUSERS"),
        ("RULE:^CN=nobody$/x/, RULE:^.*C=(..)$/land-$1/", "land-US"),
        ("RULE:^CN=(.*?)$/$1/L", SUBJECT.removeprefix("CN=").lower()),
        ("RULE:CN=Duke/x/", None),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_names_the_principal(rules, name):
    assert principal_name(parse(rules), SUBJECT) == name


@pytest.mark.parametrize(
    "rules",
    ["RULE:^CN=(.*)$", "RULE:^CN=(.*)$/$1/X", "default", "RULE:[/$1/", "RULE:^CN=(.*)$/$2/", "DEFAULT DEFAULT"],
)
def test_what_is_not_a_list_of_rules_is_refused(rules):
    with pytest.raises(InvalidOption, match=r"ssl.principal.mapping.rules"):
        parse(rules)
