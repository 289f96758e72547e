"""Logins in Java's JAAS form."""

import pytest

from tidelog.errors import InvalidOption
from tidelog.security import jaas


def test_a_login_has_options_and_users():
    text = """
      org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password='it is "so"; yes'
        user_alice="a\\"b" user_b.c=plain ;
    """
    login = jaas.parse(text)
    assert login.module == "PlainLoginModule"
    assert login.options["password"] == 'it is "so"; yes'
    assert login.users == {"alice": 'a"b', "b.c": "plain"}
    assert "so" not in repr(login)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        'a.B required username="secret"',
        'a.B maybe x="secret";',
        'a.B required x="secret;',
        "a.B required secret;",
    ],
)
def test_what_is_not_a_login_is_refused_without_showing_it(text):
    with pytest.raises(InvalidOption, match="is not a JAAS login") as refusal:
        jaas.parse(text)
    assert "secret" not in str(refusal.value)


def test_a_login_may_have_no_options():
    assert jaas.parse("org.apache.kafka.common.security.scram.ScramLoginModule required;").options == {}
