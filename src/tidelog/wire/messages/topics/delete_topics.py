"""DeleteTopics (key 20): deleting topics."""

from tidelog.wire.message import api, array, int16, int32, message, string, uuid


@message
class DeleteTopicState:
    name: str | None = string("6+", default=None, nullable="0+")
    topic_id: bytes = uuid("6+")


@api(20)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5")
    timeout_ms: int = int32()


@message
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", default=None, nullable="0+")


@api(20)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
