"""The coordinator of transactions (KIP-98, 360, 588, 664, 890).

A broker holds one `coordinator.TransactionCoordinator`. Each partition of `__transaction_state` that it leads has a
`machine.TransactionMachine` with the transactional IDs of that partition. `transaction` has the states of a transaction
and their transitions, `operations` the requests InitProducerId, AddPartitionsToTxn and EndTxn. `markers` sends the
decision to the partitions of the transaction.
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
