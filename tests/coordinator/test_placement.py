import pytest

from tidelog.coordinator.placement import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-1", 35782224),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
    ],
)
def test_hash_codes_are_javas(text, code):
    assert java_hash(text) == code


def test_the_smallest_number_has_no_absolute_value_in_java():
    assert partition_for("polygenelubricants", 50) == 0


def test_odd_ids_stay_in_range():
    assert all(0 <= partition_for(key, 50) < 50 for key in ("/", "", ".", "..", "gruppe-\ud800"))
