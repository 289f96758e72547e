"""Changes of in-sync sets: what follows when the controller's answer comes."""

from types import SimpleNamespace

from tests.log.support import NOW, after
from tests.partition.test_partition import ALL, LAG, ME, B, C, append, fetched, held, lead
from tidelog.errors import ErrorCode
from tidelog.node.isr_proposals import RETRY_MS, IsrProposals
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


def refused(partition, code):
    answer = PartitionDataResponse(partition_index=partition.name.partition, error_code=code)
    return AlterPartitionResponse(topics=[TopicDataResponse(topic_id=partition.log.topic_id, partitions=[answer])])


def test_the_high_watermark_moves_when_a_laggard_has_left():
    """The metadata with the new ISR may come before the answer, and an idle partition has no other occasion."""
    leader = lead(held())
    append(leader, b"m")
    fetched(leader, B, 1)
    assert leader.high_watermark == 0, "C has not fetched it"

    replicas = SimpleNamespace(get=lambda *_: leader, topic_name=lambda _: leader.name.topic)
    effects = []
    changes = IsrProposals(ME, replicas, effects, lambda: 100, lambda: ALL)
    late = after(LAG + 1)
    proposal = leader.propose_shrink(late, 100)
    assert C not in proposal.isr
    changes.propose(leader.name, proposal)
    changes.pump(late)
    changes.answered(accepted(leader, proposal.isr), late)
    assert leader.high_watermark == 1
    told = effects[-1]
    assert (told.kind, told.fields["isr"], changes.shrinks, changes.expands) == ("isr.shrink", list(proposal.isr), 1, 0)


def test_what_the_controllers_answer_leaves_out_is_asked_again():
    leader = lead(held())
    append(leader, b"m")
    fetched(leader, B, 1)
    effects = []
    replicas = SimpleNamespace(get=lambda *_: leader, topic_name=lambda _: leader.name.topic)
    changes = IsrProposals(ME, replicas, effects, lambda: 100, lambda: ALL)
    late = after(LAG + 1)
    changes.propose(leader.name, leader.propose_shrink(late, 100))
    changes.pump(late)
    changes.answered(AlterPartitionResponse(topics=[]), late)
    assert changes.next_deadline == late.mono + RETRY_MS
    changes.pump(late)
    assert len(effects) == 1
    changes.pump(after(LAG + 1 + RETRY_MS))
    assert [ask.request.topics[0].partitions[0].partition_index for ask in effects] == [0, 0]


def test_the_high_watermark_moves_when_a_replica_that_has_gone_is_refused():
    """It was to join when it stopped; by the time that a controller refuses it, the others have fetched what is there."""
    leader = lead(held(), isr=(ME, B))
    fetched(leader, C, 0)
    replicas = SimpleNamespace(get=lambda *_: leader, topic_name=lambda _: leader.name.topic)
    changes = IsrProposals(ME, replicas, [], lambda: 100, lambda: (ME, B))
    changes.propose(leader.name, leader.propose_expansion(C, 100, ALL))
    changes.pump(NOW)
    append(leader, b"m")
    fetched(leader, B, 1, eligible=(ME, B))
    assert leader.high_watermark == 0, "C may be in the ISR by now"
    changes.answered(refused(leader, ErrorCode.INELIGIBLE_REPLICA), NOW)
    assert leader.high_watermark == 1
