"""Text inside values, whatever their format."""


def is_text(value: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
