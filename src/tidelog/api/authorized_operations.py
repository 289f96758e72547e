"""The operations that a client may ask to see for a resource, as bit fields (KIP-430).

Without an authorizer every client is allowed every operation of the resource.
"""

_BITS = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
}


def _field(names: str) -> int:
    return sum(1 << _BITS[name] for name in names.split())


TOPIC = _field("READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS")
CLUSTER = _field("CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE")
GROUP = _field("READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS")
