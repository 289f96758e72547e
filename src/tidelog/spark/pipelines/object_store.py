"""How executors and delta-rs reach the object store of a table, which they do without Hadoop: by the settings that
Spark itself uses (`spark.hadoop.fs.s3a.…`, also of one bucket), and where there are none, by the environment (`AWS_…`).
"""

import os
from typing import Any, NamedTuple

from tidelog.spark.pipelines.folders import hadoop_settings, is_uri

S3 = ("s3", "s3a", "s3n")


class StoreAccess(NamedTuple):
    """It is sent to tasks. "" where the environment decides. `endpoint` is a URL."""

    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"StoreAccess(endpoint={self.endpoint!r}, region={self.region!r}, …)"

    def for_delta(self) -> dict[str, str] | None:
        """The options of delta-rs, which adds a commit only if no other one has its number (`If-None-Match`)."""
        found = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.token,
            "AWS_ALLOW_HTTP": "true" if self.endpoint.startswith("http://") else "",
        }
        return {name: text for name, text in found.items() if text} or None

    def for_iceberg(self) -> dict[str, str]:
        """The properties of pyiceberg's files."""
        found = {
            "s3.endpoint": self.endpoint or os.environ.get("AWS_ENDPOINT_URL", ""),
            "s3.region": self.region,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.session-token": self.token,
        }
        return {name: text for name, text in found.items() if text}

    def arrow(self) -> Any:
        """Arrow's file system."""
        from pyarrow import fs

        # A URI would look for the bucket's region at Amazon, and without the argument Arrow ignores the variable.
        return fs.S3FileSystem(
            endpoint_override=self.endpoint or os.environ.get("AWS_ENDPOINT_URL"),
            region=self.region or None,
            access_key=self.access_key or None,
            secret_key=self.secret_key or None,
            session_token=self.token or None,
        )


ENVIRONMENT = StoreAccess()


def store_access(place: str, spark: Any) -> StoreAccess:
    """That of a table's URI. A session of Spark Connect shows no settings of Hadoop: there the environment decides."""
    scheme, _, rest = place.partition("://")
    settings = hadoop_settings(spark) if is_uri(place) and scheme in S3 else None
    if settings is None:
        return StoreAccess()
    bucket = rest.partition("/")[0]

    def setting(name: str) -> str:
        """Also from a credential provider of Hadoop."""
        for each in (f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}"):
            if text := settings.getPassword(each):
                return "".join(text)
        return ""

    endpoint = setting("endpoint")
    if endpoint and "://" not in endpoint:
        endpoint = f"{'http' if setting('connection.ssl.enabled') == 'false' else 'https'}://{endpoint}"
    return StoreAccess(
        "" if endpoint.endswith("amazonaws.com") else endpoint,
        setting("endpoint.region"),
        setting("access.key"),
        setting("secret.key"),
        setting("session.token"),
    )
