"""Changes of in-sync sets: what follows when the controller's answer comes."""

from types import SimpleNamespace

from tests.log.support import after
from tests.partition.test_partition import ALL, LAG, ME, B, C, append, fetched, held, lead
from tidelog.node.isr import InSyncChanges
from tidelog.wire.messages.cluster.alter_partition import (
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)


def accepted(partition, isr):
    answer = PartitionDataResponse(
        partition_index=partition.name.partition,
        leader_id=ME,
        leader_epoch=partition.epoch,
        isr=list(isr),
        partition_epoch=partition.partition_epoch + 1,
    )
    return AlterPartitionResponse(topics=[TopicDataResponse(topic_id=partition.log.topic_id, partitions=[answer])])


def test_the_high_watermark_moves_when_a_laggard_has_left():
    """The metadata that tells of the new ISR may come before the answer, and an idle partition has no other occasion."""
    leader = lead(held())
    append(leader, b"m")
    fetched(leader, B, 1)
    assert leader.high_watermark == 0, "C has not fetched it"

    replicas = SimpleNamespace(get=lambda *_: leader, topic_name=lambda _: leader.name.topic)
    changes = InSyncChanges(ME, replicas, [], lambda: 100, lambda: ALL)
    late = after(LAG + 1)
    proposal = leader.shrink(late, 100)
    assert C not in proposal.isr
    changes.propose(leader.name, proposal)
    changes.pump(late)
    changes.answered(accepted(leader, proposal.isr), late)
    assert leader.high_watermark == 1
