"""What a refusal by a broker means for the batch that was sent, or for its producer."""

from tidelog.errors import ErrorCode

MISSING_NUMBERS = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""The broker's idea of the producer's numbers is another one."""

NOT_TAKEN = MISSING_NUMBERS | {
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
"""Told before anything is appended. NOT_LEADER_OR_FOLLOWER is not here: a request that waited for its followers when
the leadership went hears it as well."""

NO_TOPIC = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
FATAL = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
