"""The coordinator of transactions (KIP-98, 360, 588, 664, 890).

`coordinator.TransactionCoordinator` is what a broker holds. Each partition of `__transaction_state` that it leads has a
`machine.TransactionMachine` with the transactional ids of that partition. `state` is the table of a transaction's
states, `transaction` its transitions; what a request does stands in `beginning` (InitProducerId), `partitions`
(AddPartitionsToTxn) and `ending` (EndTxn). `markers` carries the decision to the partitions that took part.
"""

from tidelog.coordinator.transaction.coordinator import TransactionCoordinator
from tidelog.coordinator.transaction.requests import (
    Added,
    AddPartitions,
    Describe,
    Ended,
    EndTransaction,
    Init,
    Inited,
    ListAll,
)

__all__ = [
    "AddPartitions",
    "Added",
    "Describe",
    "EndTransaction",
    "Ended",
    "Init",
    "Inited",
    "ListAll",
    "TransactionCoordinator",
]
