"""Drawn mutants that survived, were reviewed, and behave as the original: each with the reason.

An entry names the function, the source line, the operator and its change, so that it stays valid while lines move, and
becomes stale when the line changes: a test checks that every entry still names a site.
"""

from typing import NamedTuple

from tidelog.sim.mutants.drawn.drawing import Site


class Equivalent(NamedTuple):
    """`where`: module and function; `line`: the source line; `what`: operator and change; `nth`: among equal ones."""

    where: str
    line: str
    what: str
    why: str
    nth: int = 0


EQUIVALENTS: tuple[Equivalent, ...] = (
    Equivalent(
        "tidelog.api.records.fetch:_record_sent",
        "cached.sent_log_start = -1 if diverges else answer.log_start_offset",
        "drop branch: second only",
        "The high watermark of -1 alone makes the next answer name the partition, with all its fields.",
    ),
    Equivalent(
        "tidelog.api.records.transactional:_verify_or_proceed",
        "first = found[0].header",
        "constant: 0 to -1",
        "All batches of a request that comes so far are of one producer.",
    ),
    Equivalent(
        "tidelog.controller.active_controller:ActiveController.store_event",
        "if _at_or_below(path, tree.BROKER_IDS):",
        "swap: path and tree.BROKER_IDS",
        "Whether one of two paths is the other or below it does not depend on their order.",
    ),
    Equivalent(
        "tidelog.controller.active_controller:ActiveController.store_event",
        "elif _at_or_below(path, tree.LOG_DIR_EVENTS):",
        "swap: path and tree.LOG_DIR_EVENTS",
        "Whether one of two paths is the other or below it does not depend on their order.",
    ),
    Equivalent(
        "tidelog.controller.active_controller:ActiveController.store_event",
        "elif _at_or_below(path, tree.REASSIGN_PARTITIONS):",
        "swap: path and tree.REASSIGN_PARTITIONS",
        "Whether one of two paths is the other or below it does not depend on their order.",
    ),
    Equivalent(
        "tidelog.controller.active_controller:ActiveController.store_event",
        "elif _at_or_below(path, tree.PREFERRED_ELECTION):",
        "swap: path and tree.PREFERRED_ELECTION",
        "Whether one of two paths is the other or below it does not depend on their order.",
    ),
    Equivalent(
        "tidelog.controller.active_controller:ActiveController.store_event",
        "elif _at_or_below(path, tree.DELETE_TOPICS):",
        "swap: path and tree.DELETE_TOPICS",
        "Whether one of two paths is the other or below it does not depend on their order.",
    ),
    Equivalent(
        "tidelog.controller.journal:Journal._changed",
        "self.unconfirmed = [operation for operation in sent[1:] if not isinstance(operation, Query)]",
        "drop branch: no filter",
        "What is written together holds no query; the filter is for the type checker.",
    ),
    Equivalent(
        "tidelog.coordinator.group.classic.rebalance:_sync_timed_out",
        "if is_over or not group.is_in(ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):",
        "drop branch: never",
        "Whatever ends the wait for a generation cancels its timer: it never runs late.",
    ),
    Equivalent(
        "tidelog.coordinator.group.classic.rebalance:prepare",
        "_delay_initial_rebalance(machine, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))",
        "constant: 0 to -1",
        "A second delay of -1 ms is over at once, and the third is 0.",
    ),
    Equivalent(
        "tidelog.coordinator.group.offset_commit:check_classic_commit",
        "if generation < 0 and not member_id and instance_id is None:",
        "negate: < to >=",
        "Nobody is called '': `check_member` refuses the same requests with the same code.",
    ),
    Equivalent(
        "tidelog.log.compaction.replacement:Rewritten.take",
        "if len(self._buffer) >= BUFFER_BYTES:",
        "drop branch: never",
        "The buffer is written before a segment ends and at the finish: the same bytes, with more memory.",
    ),
    Equivalent(
        "tidelog.log.compaction.replacement:Rewritten.take",
        "if len(self._buffer) >= BUFFER_BYTES:",
        "negate: >= to <",
        "Every batch is written by itself: the same bytes, with more calls.",
    ),
    Equivalent(
        "tidelog.log.recovery:_recover",
        "if number < len(segments):",
        "neighbour: < to <=",
        "Behind the last segment nothing is retired; the folder is synced once more.",
    ),
    Equivalent(
        "tidelog.log.scan:whole_batches",
        "if batch.end > len(chunk):",
        "neighbour: > to >=",
        "A batch that ends with the chunk is read once more, from the same bytes.",
    ),
    Equivalent(
        "tidelog.coordinator.group.offset_commit:check_classic_commit",
        "if generation < 0 and not member_id and instance_id is None:",
        "constant: 0 to -1",
        "Nobody is called '': `check_member` refuses the same requests with the same code.",
    ),
    Equivalent(
        "tidelog.coordinator.group.classic.join:next_protocol",
        "return choose_protocol(members) if common_protocols(members) else None",
        "drop branch: first only",
        "`supports` has refused a member that has nothing in common with all the others.",
    ),
    Equivalent(
        "tidelog.log.segment:Segment.transactions",
        'self._transactions = TransactionIndex(self._aborted_on_disk() if self.has_aborted else b"")',
        "drop branch: first only",
        "A segment without aborted transactions has no such file, and none reads as an empty one.",
    ),
    Equivalent(
        "tidelog.log.recovery:load",
        "trusted = min(recovery_point, segments[first].base_offset) if unverified else 2**63 - 1",
        "constant: 2 to 3",
        "It stands for a number above every offset, and so does the other.",
    ),
    Equivalent(
        "tidelog.coordinator.group.consumer.assignors:_balance_topic",
        "moved += 1",
        "constant: 1 to 2",
        "Only whether a round moved anything counts.",
    ),
    Equivalent(
        "tidelog.api.records.fetch_partition:_take",
        "piece = _slice(context, partition, cached, max(left, 0), limit, first=first)",
        "constant: 0 to -1",
        "The first batch of an answer is given whatever the room, be it 0 or less.",
    ),
    Equivalent(
        "tidelog.log.epochs:_fits",
        "return following >= start_offset if runs[index].epoch == epoch else following > start_offset",
        "neighbour: >= to >",
        "An entry that is dropped here is learned again of the batch that begins where it does.",
    ),
    Equivalent(
        "tidelog.log.integrity:sound_part",
        "end = max(piece.position + 1, sound.trusted)",
        "constant: 1 to 2",
        "It stands for the batch at the position: what is verified ends where a batch does.",
    ),
    Equivalent(
        "tidelog.log.log:Log._truncate_producers",
        "self.snapshots.remove_outside(-1, end)",
        "constant: 1 to 0",
        "A snapshot at offset 0 has no producers: without it none are loaded, either.",
    ),
    Equivalent(
        "tidelog.log.index:Tail.find",
        "if slot == len(self._ends) or (slot == 0 and self._positions[0] != 0):",
        "constant: 0 to -1",
        "Where it gives up, the same batch is looked for in the file.",
        nth=1,
    ),
    Equivalent(
        "tidelog.log.durability:Durability.complete",
        "finished = next(exact, None) or next((flush for flush in waiting if flush.requested_end <= offset), None)",
        "neighbour: <= to <",
        "A flush that was requested at this very offset has been found before.",
    ),
    Equivalent(
        "tidelog.log.snapshots:Snapshots.remove_strays",
        "newest = self.offsets[-1] if self.offsets and self.offsets[-1] > last else None",
        "neighbour: > to >=",
        "A snapshot at the base of a segment is kept anyway.",
    ),
    Equivalent(
        "tidelog.log.producers:Producers.apply",
        "if marker is not None and control:",
        "logic: and to or",
        "Only a control batch comes with a marker, and one that comes without has been left out before.",
    ),
    Equivalent(
        "tidelog.controller.active_controller:ActiveController.pump",
        "self.last_token += 1",
        "constant: 1 to 2",
        "Tokens grow and differ; that some are left out changes nothing.",
    ),
    Equivalent(
        "tidelog.controller.commands.reassignment:list_reassignments",
        "wanted = (",
        "drop branch: no filter",
        "A topic that is not moving has no partition to list, and is left out afterwards.",
    ),
    Equivalent(
        "tidelog.coordinator.group.offset_table:PendingOffsets.drop",
        "if positions.pop((group_id, partition), None) is not None and not positions:",
        "negate: is not to is",
        "A producer without offsets has nothing to restore, and goes when its transaction ends.",
    ),
    Equivalent(
        "tidelog.coordinator.group.offset_commit:check_consumer_commit",
        "if epoch > member.current.epoch or any(_is_stale(member, partition, epoch) for partition in partitions):",
        "neighbour: > to >=",
        "A commit in the member's own epoch has been accepted before.",
    ),
)


def reason(site: Site) -> str | None:
    """Return why this site changes nothing; None if that is unknown."""
    for entry in EQUIVALENTS:
        if (entry.where, entry.line, entry.what, entry.nth) == (site.where, site.text, site.what, site.nth):
            return entry.why
    return None
