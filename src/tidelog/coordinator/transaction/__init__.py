"""The coordinator of transactions (KIP-98, 360, 588, 664, 890).

`coordinator.TransactionCoordinator` is what a broker holds. Each partition of `__transaction_state` that it leads has a
`machine.TransactionMachine` with the transactional ids of that partition. `transaction` has the table
of a transaction's states and its transitions, `operations` what a request does: InitProducerId, AddPartitionsToTxn and
EndTxn. `markers` carries the decision to the partitions that took part.
"""

from tidelog.coordinator.transaction.coordinator import TransactionCoordinator
from tidelog.coordinator.transaction.describe import DescribeTransactions, ListTransactions
from tidelog.coordinator.transaction.operations import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    EndTransactionResult,
    InitProducerId,
    InitProducerIdResult,
)

__all__ = [
    "AddPartitions",
    "AddPartitionsResult",
    "DescribeTransactions",
    "EndTransaction",
    "EndTransactionResult",
    "InitProducerId",
    "InitProducerIdResult",
    "ListTransactions",
    "TransactionCoordinator",
]
