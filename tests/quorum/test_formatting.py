import pytest

from tidelog.quorum.formatting import InitialVoter, parse_voters

ID = "JEXY6aqzQY-32P5TStzaFg"


@pytest.mark.parametrize(
    ("host", "written"), [("one", "one"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "0:0:0:0:0:0:0:1"), ("[fe80::12:0]", "fe80:0:0:0:0:0:12:0")]
)  # fmt: skip
def test_addresses_are_written_as_java_does(host, written):
    (voter,) = parse_voters(f"3@{host}:9093:{ID}")
    assert voter == InitialVoter(3, voter.directory_id, written, 9093)
