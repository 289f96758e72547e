"""The status and the sentence with which the console answers an error."""

import traceback
from http import HTTPStatus

import click

from tidelog.cli.admin_requests import describe_error
from tidelog.console.console import Refused
from tidelog.errors import RETRIABLE, ApiError, ErrorCode, InvalidOption

DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def refused(error: Exception) -> Refused:
    """The refusal that stands for an error. One that nobody expects is also printed, with its traceback."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ApiError):
        return Refused(_status(error.code), describe_error(error.code, error.message))
    if isinstance(error, click.ClickException):
        return Refused(HTTPStatus.CONFLICT, error.message)
    if isinstance(error, InvalidOption):
        return Refused(HTTPStatus.CONFLICT, str(error))
    if isinstance(error, UnicodeEncodeError):
        return Refused(HTTPStatus.BAD_REQUEST, "The request contains half of a surrogate pair, which is no text.")
    traceback.print_exception(error)
    sentence = f"The console failed: {type(error).__name__}. It has printed the details where it was started."
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)


def _status(code: ErrorCode) -> HTTPStatus:
    if code in DENIED:
        return HTTPStatus.FORBIDDEN
    return HTTPStatus.BAD_GATEWAY if code in RETRIABLE else HTTPStatus.CONFLICT
