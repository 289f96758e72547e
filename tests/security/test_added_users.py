"""`--add-scram`: users as `kafka-storage format` takes them."""

import re
from base64 import b64encode

import pytest

from tidelog.errors import InvalidOption
from tidelog.security import scram
from tidelog.security.added_users import parse, with_password


def entropy(count):
    return b"s" * count


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_a_user_with_a_password(mechanism):
    user = parse(f'{mechanism}=[name=bob,password="b=uilder"]', entropy)
    known = scram.MECHANISMS[mechanism]
    salt = user.credential.salt
    salted = scram.salted(known, "b=uilder", salt, 4096)
    assert user == ("bob", known, scram.credential(known, salted, salt, 4096))
    assert user == with_password("bob", known, "b=uilder", entropy)


def test_a_salt_has_the_form_of_those_that_unknown_users_have():
    """Else an answer of SCRAM would tell that the user exists."""
    user = parse("SCRAM-SHA-512=[name=bob,password=builder]", entropy)
    assert re.fullmatch(rb"[0-9a-z]{20,26}", user.credential.salt)


def test_a_user_with_a_salted_password_is_the_same():
    known = scram.MECHANISMS["SCRAM-SHA-512"]
    salted = scram.salted(known, "builder", b"salt", 8192)
    text = "SCRAM-SHA-512=[name=bob,iterations=8192,salt={},{}]"
    salt = b64encode(b"salt").decode()
    by_password = parse(text.format(salt, "password=builder"), entropy)
    assert parse(text.format(f'"{salt}"', f'saltedpassword="{b64encode(salted).decode()}"'), entropy) == by_password
    assert by_password.credential.iterations == 8192


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512"),
        ("PLAIN=[name=bob,password=hunter2]", "the mechanism must be"),
        ("SCRAM-SHA-512=name=bob,password=hunter2", "in square brackets"),
        ("SCRAM-SHA-512=[name=bob,password=hunter2", "in square brackets"),
        ("SCRAM-SHA-512=[password=hunter2]", "name is missing"),
        ("SCRAM-SHA-512=[name=,password=hunter2]", "name is missing"),
        ("SCRAM-SHA-512=[name=bob]", "password (or saltedpassword) is missing"),
        ("SCRAM-SHA-512=[name=bob,password=hunter2,hunter2]", "no value has a comma"),
        ("SCRAM-SHA-512=[name=bob,pasword=hunter2]", "each setting is one of"),
        ("SCRAM-SHA-512=[name=bob,password=hunter2,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-512=[name=bob,password=hunter2,iterations=x]", "from 4096 to 16384"),
        ("SCRAM-SHA-512=[name=bob,saltedpassword=hunter2]", "needs the salt"),
        ("SCRAM-SHA-512=[name=bob,saltedpassword=hunter2!,salt=YQ==]", "saltedpassword is not in base64"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(text, problem):
    with pytest.raises(InvalidOption) as refused:
        parse(text, entropy)
    assert problem in str(refused.value)
    assert "hunter2" not in str(refused.value)
