"""IncrementalAlterConfigs (KIP-339) as those write it who administer."""

from collections.abc import Iterable

from tidelog.config.alter import Operation
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def alteration(kind: int, name: str, options: Iterable[tuple[str, str | None]]) -> IncrementalAlterConfigsRequest:
    """Set these options of one resource, or delete those whose value is None."""
    configs = [
        AlterableConfig(name=option, config_operation=Operation.DELETE if value is None else Operation.SET, value=value)
        for option, value in options
    ]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    )
